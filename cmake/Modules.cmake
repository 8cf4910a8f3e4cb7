# How a room of the house is built. One tranche_module() line per folder in CMakeLists.txt is the map.

add_library(tranche_settings INTERFACE)
target_include_directories(tranche_settings INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(tranche_settings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion
  -Wshadow -Wold-style-cast -Wnon-virtual-dtor -fstack-protector-strong -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler looks for garbage of its own only where memory is short: a twentieth of its time.
  target_compile_options(tranche_settings INTERFACE -Wduplicated-cond -Wlogical-op -fstack-clash-protection
    --param=ggc-min-heapsize=1500000)
endif()
set(seldom_run -O0)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # The guard's account changes sixteen bytes in one instruction; the same for all, so that they share precompiled headers.
  target_compile_options(tranche_settings INTERFACE -mcx16)
endif()
if(TRANCHE_FUZZ)
  set(TRANCHE_SANITIZE "address,undefined")
  target_compile_options(tranche_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TRANCHE_SANITIZE)
  target_compile_options(tranche_settings INTERFACE -fsanitize=${TRANCHE_SANITIZE} -fno-sanitize-recover=all)
  if(TRANCHE_SANITIZE MATCHES "address")
    # AddressSanitizer finds these too, where they are read or written; checking twice is a third of the compile time,
    # and what each check of an address knows about its place is most of what a program must load to start.
    target_compile_options(tranche_settings INTERFACE -fno-sanitize=null,object-size,alignment,pointer-overflow)
    # At a fixed place nothing needs to be relocated: a third of what a checked program takes to start.
    target_link_options(tranche_settings INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Checks by a call compile faster and run slower: for what runs seldom.
      set(seldom_run -O0 --param=asan-instrumentation-with-call-threshold=0)
    endif()
  endif()
  target_link_options(tranche_settings INTERFACE -fsanitize=${TRANCHE_SANITIZE})
else()
  target_compile_definitions(tranche_settings INTERFACE $<$<CONFIG:RelWithDebInfo>:_FORTIFY_SOURCE=2>)
endif()
target_link_options(tranche_settings INTERFACE -Wl,-z,relro,-z,now)
find_program(MOLD mold)
if(MOLD)
  target_link_options(tranche_settings INTERFACE -fuse-ld=mold)
endif()

# tranche_module(engine DEPENDS base policy LIBS fmt::fmt) builds src/engine/*.cpp minus tests into a static
# library, and one doctest binary `engine_test` from src/engine/*_test.cpp.
function(tranche_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*_test.cpp)
  list(REMOVE_ITEM sources ${tests} ${CMAKE_SOURCE_DIR}/src/app/main.cpp "")
  list(TRANSFORM arg_DEPENDS PREPEND tranche_)
  if(sources)
    add_library(tranche_${name} STATIC ${sources})
    target_link_libraries(tranche_${name} PUBLIC ${arg_DEPENDS} ${arg_LIBS} PRIVATE tranche_settings)
  else()
    add_library(tranche_${name} INTERFACE)
    target_link_libraries(tranche_${name} INTERFACE ${arg_DEPENDS} ${arg_LIBS})
  endif()
  if(tests AND BUILD_TESTING)
    add_executable(${name}_test ${tests} ${CMAKE_SOURCE_DIR}/src/test_main.cpp)
    target_link_libraries(${name}_test PRIVATE tranche_${name} tranche_settings)
    # Assertions without a try block each, and nothing optimised: half the time to compile.
    target_compile_definitions(${name}_test PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
    # Only those who ask are told where the checkout is: ccache knows the others from any other checkout.
    foreach(test ${tests})
      file(STRINGS ${test} asks REGEX TRANCHE_SOURCE_DIR LIMIT_COUNT 1)
      if(asks)
        set_property(SOURCE ${test} APPEND PROPERTY COMPILE_DEFINITIONS TRANCHE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      endif()
    endforeach()
    target_compile_options(${name}_test PRIVATE "$<$<CONFIG:Debug>:${seldom_run}>")
    add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
endfunction()

# tranche_precompile(tranche_api HEADERS <api/api.hpp> FOR api_test): headers that are compiled once, with the flags of
# the first target, and for which others. Programs have its code independent of position in the same way then.
function(tranche_precompile target)
  cmake_parse_arguments(arg "" "" "HEADERS;FOR" ${ARGN})
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  foreach(other ${arg_FOR})
    if(TARGET ${other})
      target_precompile_headers(${other} REUSE_FROM ${target})
      set_target_properties(${other} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${other} PRIVATE -fPIC)
    endif()
  endforeach()
endfunction()

# tranche_program_test(NAME script.py ARGS…): a test that drives the built binary from outside.
function(tranche_program_test name script)
  add_test(NAME ${name} COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/${script} ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "TRANCHE_BUILD_DIR=${CMAKE_BINARY_DIR}" TIMEOUT 600)
endfunction()

# tranche_fuzz_targets(LIBS…): every tests/fuzz/*_fuzz.cpp. A libFuzzer binary each under preset fuzz; elsewhere one
# program that replays the corpus and random changes of it, run as a test.
function(tranche_fuzz_targets)
  set(folder ${CMAKE_SOURCE_DIR}/tests/fuzz)
  file(GLOB targets CONFIGURE_DEPENDS ${folder}/*_fuzz.cpp)
  if(NOT TRANCHE_FUZZ)
    add_executable(fuzz_replay ${targets} ${folder}/replay_main.cpp)
    target_link_libraries(fuzz_replay PRIVATE ${ARGN} tranche_settings)
    add_test(NAME fuzz_replay COMMAND fuzz_replay ${folder}/corpus)
    set_tests_properties(fuzz_replay PROPERTIES TIMEOUT 1800)
    return()
  endif()
  foreach(source ${targets})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_compile_definitions(${name} PRIVATE TRANCHE_LIBFUZZER)
    target_link_libraries(${name} PRIVATE ${ARGN} tranche_settings)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    string(REPLACE _fuzz "" corpus ${name})
    # New inputs go to the build folder; the committed corpus is only read.
    add_test(NAME ${name} COMMAND ${name} -runs=200000 -max_total_time=60 -max_len=4096 -timeout=5
      ${CMAKE_BINARY_DIR}/corpus/${corpus} ${folder}/corpus/${corpus})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${corpus})
  endforeach()
endfunction()
