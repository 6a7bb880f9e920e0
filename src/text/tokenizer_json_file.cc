#include "text/tokenizer_json_file.h"

#include <limits>
#include <optional>

#include "text/vocabulary.h"

namespace decant {
namespace {

using Json = nlohmann::json;

/// Takes the parser's events: a tree of a 150,000-token vocabulary would take longer to build, and
/// to destroy, than all else.
class FileReader final : public nlohmann::json_sax<Json> {
 public:
  explicit FileReader(TokenizerJsonFile& file) : file_(&file) {}

  const Status& status() const { return status_; }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Value(value);
  }
  bool binary(binary_t& /*value*/) override { return Fail("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (table_ != Table::kVocab) return Value(value);
    if (value > std::numeric_limits<uint32_t>::max()) {
      return Fail(fmt::format("model.vocab: the id of {} is {}", QuoteToken(key_), value));
    }
    if (file_->vocab.size() == Vocabulary::kMaxTokens) {
      return Fail(fmt::format("model.vocab has more than {} tokens", Vocabulary::kMaxTokens));
    }
    file_->vocab.emplace_back(std::move(key_), static_cast<uint32_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (table_ != Table::kMerges) return Value(std::move(value));
    if (file_->merges.size() == Vocabulary::kMaxTokens) {
      return Fail(fmt::format("model.merges has more than {} merges", Vocabulary::kMaxTokens));
    }
    if (!in_pair_) return SpacedMerge(value);
    if (pair_.size() == 2) return Fail("model.merges: a merge of more than two tokens");
    pair_.push_back(std::move(value));
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(size_t /*elements*/) override {
    if (table_ != Table::kNone) return WrongValue();
    if (InModel() && key_ == "vocab") {
      table_ = Table::kVocab;
      file_->has_vocab = true;
      file_->vocab.clear();
      return true;
    }
    return Open(Json::object());
  }

  bool end_object() override { return Close(Table::kVocab); }

  bool start_array(size_t /*elements*/) override {
    if (table_ == Table::kMerges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (table_ != Table::kNone) return WrongValue();
    if (InModel() && key_ == "merges") {
      table_ = Table::kMerges;
      file_->has_merges = true;
      file_->merges.clear();
      return true;
    }
    return Open(Json::array());
  }

  bool end_array() override {
    if (!in_pair_) return Close(Table::kMerges);
    in_pair_ = false;
    if (pair_.size() != 2) return Fail("model.merges: a merge of less than two tokens");
    file_->merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const Json::exception& /*error*/) override {
    return Fail(fmt::format("not JSON at byte {}", position));
  }

 private:
  enum class Table { kNone, kVocab, kMerges };

  bool Fail(std::string_view fault) {
    if (status_.ok()) status_ = DataLoss("{}", fault);
    return false;
  }

  bool WrongValue() {
    return Fail(
        table_ == Table::kVocab
            ? fmt::format("model.vocab: the id of {} is not a number from 0 up", QuoteToken(key_))
            : std::string("model.merges: a merge is not two strings"));
  }

  /// Directly in the object "model" of the file.
  bool InModel() const { return open_.size() == 2 && section_ == "model" && open_[1]->is_object(); }

  bool SpacedMerge(const std::string& merge) {
    if (merge.starts_with("#version")) return true;
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      return Fail(fmt::format("model.merges: {} is not two tokens with one space between",
                              QuoteToken(merge)));
    }
    file_->merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    return true;
  }

  Json* Add(Json value) {
    if (++nodes_ > TokenizerJsonFile::kMaxNodes) {
      Fail(fmt::format("more than {} values outside of vocabulary and merges",
                       TokenizerJsonFile::kMaxNodes));
      return nullptr;
    }
    if (open_.empty()) {
      file_->rest = std::move(value);
      return &file_->rest;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    Json& slot = (*open_.back())[key_];
    slot = std::move(value);
    return &slot;
  }

  bool Value(Json value) {
    if (table_ != Table::kNone) return WrongValue();
    return Add(std::move(value)) != nullptr;
  }

  bool Open(Json container) {
    if (open_.size() == TokenizerJsonFile::kMaxDepth) {
      return Fail(fmt::format("values nested more than {} deep", TokenizerJsonFile::kMaxDepth));
    }
    if (open_.size() == 1) section_ = key_;
    Json* added = Add(std::move(container));
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }

  bool Close(Table table) {
    if (table_ == table) {
      table_ = Table::kNone;
    } else {
      open_.pop_back();
    }
    return true;
  }

  TokenizerJsonFile* file_;
  Status status_;
  std::vector<Json*> open_;  ///< From the root to the container that is being read.
  std::string section_;      ///< The key of the root under which it lies.
  std::string key_;
  size_t nodes_ = 0;
  Table table_ = Table::kNone;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

Expected<TokenizerJsonFile> ReadTokenizerJsonFile(std::string_view json) {
  TokenizerJsonFile file;
  FileReader reader(file);
  if (!Json::sax_parse(json, &reader)) {
    if (!reader.status().ok()) return reader.status();
    return DataLoss("not JSON");
  }
  if (!file.rest.is_object()) return DataLoss("not a JSON object");
  return file;
}

}  // namespace decant
