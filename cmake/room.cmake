# weir_pch(<name> <header>...): what many sources include of others, parsed once a build.
function(weir_pch name)
  file(CONFIGURE OUTPUT pch.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/pch.cc)
  target_compile_features(${name} PRIVATE cxx_std_23)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# What is tested is optimised as the preset says; the tests themselves must compile fast.
set(weir_test_options -O0)

if(WEIR_PCH)
  # docs/decisions/0026. Not in every build: who forgets an include must hear of it.
  set(headers
    <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <deque> <expected>
    <filesystem> <fstream> <functional> <future> <list> <map> <memory> <mutex> <optional> <random>
    <set> <span> <sstream> <string> <thread> <unordered_map> <unordered_set> <vector>
    <boost/asio/executor_work_guard.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp>
    <boost/asio/local/stream_protocol.hpp> <boost/asio/post.hpp> <boost/asio/steady_timer.hpp>
    <boost/asio/write.hpp> <boost/json.hpp> <fmt/format.h> <gtest/gtest.h>
    <weir/gate/gate.h> <weir/time/simulated_time.h>)
  foreach(pch weir_pch weir_test_pch)
    weir_pch(${pch} ${headers})
    target_link_libraries(${pch} PRIVATE Boost::json fmt::fmt GTest::gtest)
  endforeach()
elseif(WEIR_TESTS)
  # Two thirds of the time that a test takes to compile.
  weir_pch(weir_test_pch <gtest/gtest.h>)
  target_link_libraries(weir_test_pch PRIVATE GTest::gtest)
endif()
if(TARGET weir_test_pch)
  target_compile_options(weir_test_pch PRIVATE ${weir_test_options})
endif()

# weir_room(<room> <library>...): the library weir_<room>, known as weir::<room>, on the libraries
# given, with the tests and benchmarks that stand beside its sources.
#   include/weir/<room>/*.h        public headers
#   src/<room>/*.cc                sources; a room without any is an interface library
#   src/<room>/*_test.cc           <room>_test
#   src/<room>/*_benchmark.cc      <room>_benchmark
function(weir_room room)
  set(folder ${PROJECT_SOURCE_DIR}/src/${room})
  set(include ${PROJECT_SOURCE_DIR}/include)
  file(GLOB headers CONFIGURE_DEPENDS ${include}/weir/${room}/*.h)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cc$")

  set(library weir_${room})
  if(sources)
    add_library(${library} STATIC ${sources})
    target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    if(WEIR_PCH)
      target_precompile_headers(${library} REUSE_FROM weir_pch)
    endif()
    set(scope PUBLIC)
  else()
    add_library(${library} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(weir::${room} ALIAS ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${room})
  target_sources(${library} ${scope} FILE_SET HEADERS BASE_DIRS ${include} FILES ${headers})
  target_compile_features(${library} ${scope} cxx_std_23)
  target_link_libraries(${library} ${scope} ${ARGN})

  weir_test(${room} ${library} ${folder}/*_test.cc)
  weir_benchmark(${room} ${library} ${folder}/*_benchmark.cc)
endfunction()

# weir_test(<room> <library> <glob>): <room>_test, whose tests carry the label <room>.
function(weir_test room library glob)
  file(GLOB sources CONFIGURE_DEPENDS ${glob})
  if(NOT WEIR_TESTS OR NOT sources OR (WEIR_TEST_ROOMS AND NOT room IN_LIST WEIR_TEST_ROOMS))
    return()
  endif()

  set(test ${room}_test)
  add_executable(${test} ${sources})
  target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${test} PRIVATE ${library} GTest::gtest_main)
  target_precompile_headers(${test} REUSE_FROM weir_test_pch)
  target_compile_options(${test} PRIVATE ${weir_test_options})
  if(NOT WEIR_PCH)
    # What runs longer than it compiles; unoptimised, the walks take six times as long.
    list(FILTER sources INCLUDE REGEX "_(simulation|property)_test\\.cc$")
    set_source_files_properties(${sources} PROPERTIES
      COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(NOT TARGET weir_tests)
    add_custom_target(weir_tests)  # the tests and what they need, and nothing else
  endif()
  add_dependencies(weir_tests ${test})
  include(GoogleTest)
  # Each test is a process, but those that need a PostgreSQL server share one: it takes a second to
  # make.
  gtest_discover_tests(${test}
    TEST_PREFIX ${room}/
    TEST_FILTER -*Postgresql*
    DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS ${room} TIMEOUT 300)
endfunction()

# weir_postgresql_tests(<room>): the tests of <room>_test with Postgresql in their names, as one,
# which takes long and so begins first.
function(weir_postgresql_tests room)
  if(TARGET ${room}_test)
    add_test(NAME ${room}/postgresql COMMAND ${room}_test --gtest_filter=*Postgresql*)
    set_tests_properties(${room}/postgresql PROPERTIES LABELS ${room} TIMEOUT 600 COST 1000)
  endif()
endfunction()

function(weir_benchmark room library glob)
  file(GLOB sources CONFIGURE_DEPENDS ${glob})
  if(NOT WEIR_BENCHMARKS OR NOT sources)
    return()
  endif()
  add_executable(${room}_benchmark ${sources})
  target_include_directories(${room}_benchmark PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${room}_benchmark PRIVATE ${library} benchmark::benchmark_main)
endfunction()
