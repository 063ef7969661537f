# weir_embed_ranks(): the tokenizers' rank files (tools/ranks) inside weir_tokenizer, if they are
# there; CMake looks again at every build.
function(weir_embed_ranks)
  set(folder ${PROJECT_SOURCE_DIR}/build/ranks)
  file(GLOB ranks CONFIGURE_DEPENDS ${folder}/*.tiktoken)
  list(LENGTH ranks count)
  if(count EQUAL 2)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/tokenizer/built_in.cc PROPERTIES
      COMPILE_DEFINITIONS WEIR_RANKS="${folder}" OBJECT_DEPENDS "${ranks}")
  endif()
  if(TARGET tokenizer_test)
    target_compile_definitions(tokenizer_test PRIVATE WEIR_RANKS="${folder}")
  endif()
  if(WEIR_TESTS)
    add_executable(tokenizer_driver ${PROJECT_SOURCE_DIR}/tests/tokenizer/driver.cc)
    target_include_directories(tokenizer_driver PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(tokenizer_driver PRIVATE weir_tokenizer)
  endif()
endfunction()
