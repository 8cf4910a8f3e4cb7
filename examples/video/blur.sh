#!/bin/sh
# A generated clip, blurred piece by piece with an OpenCL filter inside a slice, and joined again.
#   examples/video/blur.sh [OUTPUT]
set -eu
output=${1:-blurred.mp4}
clip=$(mktemp --suffix .mp4)
trap 'rm -f "$clip"' EXIT
ffmpeg -v error -y -f lavfi -i testsrc=duration=6:size=320x240:rate=10 -g 10 -c:v mpeg4 "$clip"
job=$(tranche -q run --name blur --kind video --input "$clip" --segment 2s --gpus 512MB --time 5m -o name -- \
  ffmpeg -nostdin -v error -init_hw_device opencl=slice -filter_hw_device slice -i '{input}' \
  -vf format=yuv420p,hwupload,avgblur_opencl=5,hwdownload,format=yuv420p -c:v mpeg4 '{output}')
tranche wait "$job"
tranche results "$job" --join "$output"
