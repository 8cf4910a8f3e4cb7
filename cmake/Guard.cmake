# libtranche-guard.so: the guard inside tenants' processes. Never sanitized (it is loaded into foreign programs),
# without exceptions, RTTI or a libstdc++ of its own, and with nothing visible but what it interposes.
file(GLOB guard_core CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/guard/*.cpp)
file(GLOB guard_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/guard/*_test.cpp)
file(GLOB guard_broker CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/guard/broker*.cpp ${CMAKE_SOURCE_DIR}/src/guard/arbiter.cpp
  ${CMAKE_SOURCE_DIR}/src/guard/device_queue.cpp)
file(GLOB guard_fronts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/guard/cuda/*.cpp
  ${CMAKE_SOURCE_DIR}/src/guard/opencl/*.cpp)
list(REMOVE_ITEM guard_broker ${CMAKE_SOURCE_DIR}/src/guard/broker_wire.cpp)
list(REMOVE_ITEM guard_core ${guard_tests} ${guard_broker} "")

add_library(tranche-guard SHARED ${guard_core} ${guard_fronts})
target_include_directories(tranche-guard PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(tranche-guard PRIVATE -O2 -g1 -fno-exceptions -fno-rtti -fno-threadsafe-statics
  -fvisibility=hidden -ftls-model=initial-exec -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow
  -fno-sanitize=all $<$<CONFIG:Debug>:-Werror>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(tranche-guard PRIVATE -mcx16)
endif()
target_link_options(tranche-guard PRIVATE -static-libstdc++ -static-libgcc -fno-sanitize=all -Wl,-z,relro,-z,now,-z,nodelete
  -Wl,--no-undefined -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/guard/guard.map)
set_target_properties(tranche-guard PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/guard/guard.map)
