// The body of a request: the members that decide its cost, and the count of its prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "provider/call.h"

namespace weir {

struct CallBody {
  std::string model = {};
  bool stream = false;
  bool usage_asked = false;
  std::optional<Amount> max_output = {};
  Amount choices = 1;
  Amount input_tokens = 0;
  bool has_prompt = false;
};

// Nothing if it is no JSON object. A `model` that is not empty is meant, whatever the body says.
//
// Counted are all texts of the prompt, each by itself, with 3 for every message, 1 for its name and
// 3 for the reply; names of members that are the user's own (of tools, arguments, schemas) and 2
// for each; 9 where there are tools; token numbers one by one; media as estimate.h has them. Counts
// of chats without tools are OpenAI's own; with tools they are near, and mostly above.
std::optional<CallBody> read_call_body(Profile profile, std::string_view model,
                                       std::string_view body, FindTokenizer find_tokenizer);

}  // namespace weir
