#include "server/request_parser.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

namespace decant {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMaxHeaders = 256;
/// Of a chunk's size and extensions, or the trailer fields behind the last chunk.
constexpr size_t kMaxChunkLine = 16 << 10;
/// Of "0", its line's end and the empty line that ends the trailer (RFC 9112, 7.1).
constexpr size_t kShortestLastChunk = 5;

constexpr std::array kMethods = {http::verb::get,    http::verb::head,  http::verb::post,
                                 http::verb::put,    http::verb::patch, http::verb::delete_,
                                 http::verb::options};

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

/// What quoted text may not hold: a control character other than the tab (RFC 9110, 5.6.4).
bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && byte != '\t') || byte == 0x7F;
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// What stands behind scheme and authority of "http://host/path", else `target` itself.
std::string_view WithoutOrigin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !SameIgnoringCase(target.substr(0, scheme.size()), scheme))
      continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string_view::npos) return "/";
    return target.substr(path);
  }
  return target;
}

}  // namespace

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  Impl(size_t header_limit, size_t body_limit) : header_limit_(header_limit), limit_(body_limit) {
    // Beast counts what is left of a head whenever more of it comes, so that the way in which a
    // head is cut would decide: HeadTooLong counts.
    this->header_limit(static_cast<uint32_t>(2 * header_limit));
    this->body_limit(body_limit);
    eager(true);
  }

  size_t Feed(std::string_view bytes) {
    size_t used = 0;
    while (!got_some() && bytes.substr(used).starts_with("\r\n")) used += 2;
    if (!got_some() && (bytes.size() == used || bytes.substr(used) == "\r")) return used;
    if (HeadTooLong(bytes.substr(used))) {
      error_ = Describe(http::error::header_limit);
      return used;
    }
    if (MayBeACutLastChunk(bytes.substr(used))) return used;
    boost::beast::error_code code;
    const size_t taken = put({bytes.data() + used, bytes.size() - used}, code);
    head_taken_ += taken;
    searched_ -= std::min(searched_, taken);
    used += taken;
    if (code && code != http::error::need_more) {
      if (!error_) error_ = Describe(code);
    } else if (is_header_done() && !is_done() && bytes.size() - used > kMaxChunkLine) {
      error_ = FramingError{400, "A chunk's size or trailer is too long."};
    }
    return used;
  }

  const std::optional<FramingError>& error() const { return error_; }
  bool http_1_1() const { return version_ == 11; }
  bool expects_continue() const { return expects_continue_; }
  HttpRequest& request() { return request_; }

 private:
  using Text = boost::beast::string_view;
  using Code = boost::beast::error_code;

  /// Whether the head is larger than it may be; `bytes` are those that were not taken before.
  bool HeadTooLong(std::string_view bytes) {
    if (is_header_done()) return false;
    constexpr std::string_view kEnd = "\r\n\r\n";
    size_t size = bytes.size();
    if (head_taken_ > 0 && bytes.starts_with("\r\n")) {
      size = 2;  // the line before it was taken
    } else if (const size_t end = bytes.find(kEnd, searched_); end != std::string_view::npos) {
      size = end + kEnd.size();
    }
    searched_ = bytes.size() - std::min(bytes.size(), kEnd.size() - 1);
    return head_taken_ + size > header_limit_;
  }

  /// Whether `bytes` may be a last chunk that is not whole. Beast asserts five bytes when it comes
  /// back to one, counting the line end of a chunk before it, which an empty body does not have. No
  /// chunked body ends with fewer than five, so waiting for them keeps none from its end.
  bool MayBeACutLastChunk(std::string_view bytes) const {
    return is_header_done() && chunked() && bytes.size() < kShortestLastChunk &&
           bytes.starts_with('0');
  }

  FramingError Describe(const Code& code) const {
    if (code == http::error::header_limit) {
      return {431, fmt::format("The request's headers are larger than {} bytes.", header_limit_)};
    }
    if (code == http::error::body_limit) {
      return {413, fmt::format("The request's body is larger than {} bytes.", limit_)};
    }
    if (code == http::error::bad_version) {
      return {400, "The request line must end with HTTP/1.1 or HTTP/1.0."};
    }
    return {400, fmt::format("The request is no valid HTTP: {}.", code.message())};
  }

  void Refuse(int status, std::string message, Code& code) {
    error_ = FramingError{status, std::move(message)};
    code = http::error::bad_value;
  }

  void on_request_impl(http::verb verb, Text method, Text target, int version,
                       Code& code) override {
    version_ = version;
    request_.method = method.substr(0, 32).to_string();
    if (std::find(kMethods.begin(), kMethods.end(), verb) == kMethods.end()) {
      return Refuse(405, "The method is none of GET, HEAD and POST.", code);
    }
    const std::string_view local = WithoutOrigin(View(target));
    const size_t question = local.find('?');
    request_.path = local.substr(0, question);
    if (question != std::string_view::npos) request_.query = local.substr(question + 1);
    if (request_.path.empty()) request_.path.push_back('/');
    const bool asterisk = request_.path == "*" && verb == http::verb::options;
    const bool ascii = std::all_of(local.begin(), local.end(), [](char c) { return c > 0; });
    if ((request_.path.front() != '/' && !asterisk) || !ascii ||
        local.find('#') != std::string_view::npos) {
      Refuse(400, "The request's target must be a path such as /v1/models.", code);
    }
  }

  void on_field_impl(http::field field, Text name, Text value, Code& code) override {
    if (is_body_) return;  // A trailer: nothing here needs one.
    if (request_.headers.size() == kMaxHeaders) {
      code = http::error::header_limit;
      return;
    }
    if (field == http::field::content_length &&
        (request_.Header("Content-Length") || value.find(',') != Text::npos)) {
      return Refuse(400, "Content-Length stands there more than once.", code);
    }
    if (field == http::field::transfer_encoding &&
        (!SameIgnoringCase(View(value), "chunked") || !http_1_1())) {
      return Refuse(400, "Transfer-Encoding may only be chunked, and only in HTTP/1.1.", code);
    }
    if (field == http::field::host && request_.Header("Host")) {
      return Refuse(400, "Host stands there more than once.", code);
    }
    if (field == http::field::expect) {
      if (!SameIgnoringCase(View(value), "100-continue")) {
        return Refuse(417, "Expect may only be 100-continue.", code);
      }
      expects_continue_ = http_1_1();
    }
    request_.headers.push_back({name.to_string(), value.to_string()});
  }

  void on_header_impl(Code& code) override {
    is_body_ = true;
    if (http_1_1() && !request_.Header("Host")) Refuse(400, "The Host header is missing.", code);
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/, Code& code) override {
    code = {};
  }
  size_t on_body_impl(Text bytes, Code& code) override {
    request_.body.append(bytes.data(), bytes.size());
    code = {};
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, Text extensions, Code& code) override {
    code = {};
    // Beast takes anything between quotes.
    if (std::any_of(extensions.begin(), extensions.end(), IsControl)) {
      Refuse(400, "A control character stands in a chunk's extension.", code);
    }
  }
  size_t on_chunk_body_impl(std::uint64_t /*remain*/, Text bytes, Code& code) override {
    return on_body_impl(bytes, code);
  }
  void on_finish_impl(Code& code) override { code = {}; }
  void on_response_impl(int /*status*/, Text /*reason*/, int /*version*/, Code& code) override {
    code = http::error::bad_method;
  }

  const size_t header_limit_;
  const size_t limit_;
  size_t head_taken_ = 0;  ///< Bytes taken while the head was not done.
  size_t searched_ = 0;    ///< Of those not taken: so many do not begin the head's end.
  int version_ = 11;
  bool is_body_ = false;
  bool expects_continue_ = false;
  std::optional<FramingError> error_;
  HttpRequest request_;
};

RequestParser::RequestParser(size_t header_limit, size_t body_limit)
    : impl_(std::make_unique<Impl>(header_limit, body_limit)) {}

RequestParser::~RequestParser() = default;

size_t RequestParser::Parse(std::string_view bytes) { return impl_->Feed(bytes); }
const std::optional<FramingError>& RequestParser::error() const { return impl_->error(); }
bool RequestParser::head_done() const { return impl_->is_header_done(); }
bool RequestParser::done() const { return !impl_->error() && impl_->is_done(); }
bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
bool RequestParser::http_1_1() const { return impl_->http_1_1(); }
bool RequestParser::expects_continue() const { return impl_->expects_continue(); }
HttpRequest& RequestParser::request() { return impl_->request(); }

}  // namespace decant
