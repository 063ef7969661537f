# weir_embed(<target> <header> [BASE <folder>] <file>...): files in a generated header, each as a
# std::pair of its name, below the folder if there is one, and its bytes in kEmbedded.
function(weir_embed target header)
  cmake_parse_arguments(PARSE_ARGV 2 embed "" BASE "")
  set(arrays "")
  set(entries "")
  set(count 0)
  foreach(file IN LISTS embed_UNPARSED_ARGUMENTS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    if(embed_BASE)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${embed_BASE} OUTPUT_VARIABLE name)
    else()
      cmake_path(GET file FILENAME name)
    endif()
    # Not as a string literal, which may have 64 KiB and no zeros. Not inline: every header has its
    # own of these names.
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND arrays "constexpr char kBytes${count}[] = {${bytes}};\n")
    string(APPEND entries "    {\"${name}\", {kBytes${count}, sizeof kBytes${count}}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(CONFIGURE OUTPUT embedded/${header} @ONLY CONTENT
"#include <array>
#include <string_view>
#include <utility>

@arrays@
constexpr std::array<std::pair<std::string_view, std::string_view>, @count@> kEmbedded = {{
@entries@}};
")
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
