// Any bytes as answers of a server, the first byte saying how they are asked for and cut: nothing
// crashes, no view lies outside, memory is bounded, and the answer is the same however it is cut.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "net/upstream_answer.h"

namespace {

using namespace weir::net;
using Step = AnswerReader::Step;

struct Answer {
  int status = 0;
  std::string fields;
  std::string body;
  Step end = Step::kMore;
  bool keep_alive = false;
  bool ends_at_close = false;
  std::size_t left = 0;

  bool operator==(const Answer&) const = default;
};

void note(const ResponseHead& head, Answer& answer) {
  require(answer.status == 0 && head.status >= 200 && head.status <= 999);
  require(!(head.body.chunked && head.body.until_close) && head.fields.all().size() <= kFieldsMax);
  answer.status = head.status;
  answer.fields = head.reason;
  for (const auto& [name, value] : head.fields.all()) {
    answer.fields.append(name).append(":").append(value).append(";");
  }
}

Answer read(std::string_view bytes, std::string_view method, std::size_t cut) {
  AnswerReader reader;
  AnswerReader::Found found;
  Answer answer;
  reader.start(method);
  while (answer.end == Step::kMore && !bytes.empty()) {
    // Exactly as large as it is, so that no byte after it can be read unseen.
    const std::vector<char> piece(
        bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(cut, bytes.size())));
    bytes.remove_prefix(piece.size());
    std::string_view rest{piece.data(), piece.size()};
    Step step = Step::kHead;
    while (step == Step::kHead || step == Step::kBody) {
      step = reader.next(rest, found);
      if (step == Step::kHead) note(found.head, answer);
      if (step == Step::kBody) {
        require(answer.status != 0 && !found.body.empty() && found.body.size() <= piece.size());
        answer.body += found.body;
      }
    }
    require(step != Step::kMore || rest.empty());
    answer.end = step;
    answer.left = rest.size() + bytes.size();
  }
  answer.keep_alive = reader.keep_alive();
  answer.ends_at_close = reader.ends_at_close();
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 1, size - 1};
  const std::string_view method = (data[0] & 1) != 0 ? "HEAD" : "GET";
  Answer whole = read(bytes, method, bytes.size());
  Answer cut = read(bytes, method, 1 + data[0] / 2U);
  if (whole.end == Step::kFault && cut.end == Step::kFault) {
    // What came before the fault may have been passed on already, or not; and where it is found
    // depends on the cut.
    require(cut.body.starts_with(whole.body));
    cut.body = whole.body;
    cut.left = whole.left;
  }
  require(whole == cut);
  return 0;
}
