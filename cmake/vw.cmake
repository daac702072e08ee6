# VW's libraries as imported targets: compiled once per machine, into the user's cache, under a key of everything that
# decides the result. A fresh checkout, another virtual environment or another Python version finds them built.

set(VW_SOURCE_DIR "" CACHE PATH "VW's source, if you have a copy; else pip fetches the pinned version")
if(VW_SOURCE_DIR)
  if(NOT EXISTS "${VW_SOURCE_DIR}/vowpalwabbit/core/CMakeLists.txt")
    message(FATAL_ERROR "VW_SOURCE_DIR=${VW_SOURCE_DIR} does not hold VW's source (vowpalwabbit/core/CMakeLists.txt)")
  endif()
  # A copy of the user's own may be edited, so its content decides.
  file(GLOB_RECURSE files LIST_DIRECTORIES false "${VW_SOURCE_DIR}/vowpalwabbit/*" "${VW_SOURCE_DIR}/version.txt")
  set(source_key "${VW_SOURCE_DIR}")
  foreach(file IN LISTS files)
    file(SHA256 "${file}" digest)
    string(APPEND source_key ${digest})
  endforeach()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/vw_source.cmake")
if(NOT source_key)
  set(source_key ${VW_SHA256})
endif()

function(vw_build_libraries)
  set(settings
    -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
    -DCMAKE_C_FLAGS=${CMAKE_C_FLAGS} -DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}
    -DCMAKE_OSX_ARCHITECTURES=${CMAKE_OSX_ARCHITECTURES}
    -DCMAKE_OSX_DEPLOYMENT_TARGET=${CMAKE_OSX_DEPLOYMENT_TARGET}
    -DVW_USE_ASAN=${OPO_CMAB_SANITIZE_VW} -DVW_USE_UBSAN=${OPO_CMAB_SANITIZE_VW})
  file(SHA256 "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/vw/CMakeLists.txt" recipe)
  file(REAL_PATH "${CMAKE_CXX_COMPILER}" compiler)  # c++ and g++ may be one
  string(SHA256 key "${source_key};${recipe};${settings};${compiler};${CMAKE_CXX_COMPILER_ID}\
    ;${CMAKE_CXX_COMPILER_VERSION};${CMAKE_SYSTEM_PROCESSOR}")
  string(SUBSTRING ${key} 0 16 key)
  set(build "${VW_CACHE_DIR}/build-${VW_VERSION}-${key}")
  set(VW_BUILD_DIR "${build}" PARENT_SCOPE)

  vw_lock(build-${key} "compiling VW")
  if(EXISTS "${build}/built")
    message(STATUS "VW ${VW_VERSION} is already compiled: ${build}")
    return()
  endif()
  message(STATUS "Compiling VW ${VW_VERSION}, once per machine (about 7 minutes on 2 cores): ${build}")
  # Copied, so that an interrupted build can be taken up from another checkout.
  file(COPY "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/vw/CMakeLists.txt" DESTINATION "${build}/project")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${build}/project" -B "${build}" -G "${CMAKE_GENERATOR}"
            -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
            -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} ${settings} -DVW_SOURCE_DIR=${VW_SOURCE_DIR}
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --config "${CMAKE_BUILD_TYPE}" --parallel
    COMMAND_ERROR_IS_FATAL ANY)
  # The libraries hold it all; the objects would only double the size.
  file(GLOB_RECURSE objects "${build}/*${CMAKE_CXX_OUTPUT_EXTENSION}")
  file(REMOVE ${objects})
  file(TOUCH "${build}/built")
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)  # the exported targets name it
vw_build_libraries()
include("${VW_BUILD_DIR}/vw-targets.cmake")
