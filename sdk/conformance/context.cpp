// SPDX-License-Identifier: Apache-2.0
// context.cpp: expectations, the judgement of every call, and the plugin's life during one case.
#include "conformance/context.hpp"

#include "conformance/objects.hpp"

#include <cstring>

namespace tenon::conform {

namespace {

constexpr size_t max_stories = 12;  // per case; what follows is counted, not told
constexpr unsigned char untouched = 0xA5;

// One library per process: dlopen counts references, the entry is asked again for each case.
Result<Library> shared_library(const std::string& path) {
  static std::string opened_path;
  static Library opened;
  if (opened.handle != nullptr && opened_path == path) return opened;
  auto library = TN_TRY(open_library(path));
  opened = library;
  opened_path = path;
  return library;
}

// One host per process: the entry keeps the first table it is given for the plugin's life.
Host& shared_host(const Settings& settings) {
  static Host* host = new Host;  // outlives static destructors: a plugin's threads may log until the end
  host->options = settings.options;
  return *host;
}

bool terminated(const char* field, size_t size) { return strnlen(field, size) < size; }

// What is wrong with a failure's story, or "".
std::string error_flaw(int32_t code, const tn_error& error) {
  if (code < 0 || code >= TN_CODE_COUNT) return words("the code ", code, " is not one of the ABI's");
  if (error.code != code) return words("returned ", code_name(code), ", but tn_error.code is ", error.code);
  if (error.size != sizeof(tn_error)) return "tn_error.size was changed: it is the caller's";
  if (!terminated(error.domain, sizeof error.domain)) return "tn_error.domain has no NUL";
  if (!terminated(error.message, sizeof error.message)) return "tn_error.message has no NUL";
  if (error.domain[0] == '\0') return "tn_error.domain is empty: it says who is speaking";
  if (error.message[0] == '\0') return "tn_error.message is empty: it names object, value and remedy";
  return {};
}

}  // namespace

Context::Context(const Settings& settings, Random random, const Case* wanted)
    : settings_(settings), random_(random), wanted_(wanted), host_(&shared_host(settings)) {}

Context::~Context() = default;

void Context::fail(std::string story) {
  const std::lock_guard lock(mutex_);
  if (aside_ != nullptr) return aside_->push_back(std::move(story));
  if (finding_.failures.size() < max_stories) finding_.failures.push_back(std::move(story));
}

void Context::warn(std::string story) {
  const std::lock_guard lock(mutex_);
  if (finding_.warnings.size() < max_stories) finding_.warnings.push_back(std::move(story));
}

Status Context::skip(std::string reason) {
  finding_.outcome = Outcome::skipped;
  finding_.reason = std::move(reason);
  return Status(TN_UNSUPPORTED, finding_.reason);
}

Status Context::unsupported(std::string tag, std::string reason) {
  finding_.outcome = Outcome::unsupported;
  finding_.tag = std::move(tag);
  finding_.reason = std::move(reason);
  return Status(TN_UNSUPPORTED, finding_.reason);
}

Status Context::needs(bool there, std::string tag, std::string reason) {
  if (!there) return unsupported(std::move(tag), std::move(reason));
  finding_.tag = std::move(tag);
  return {};
}

tn_error Context::marked_error() noexcept {
  tn_error error;
  std::memset(&error, untouched, sizeof error);
  error.size = sizeof error;
  return error;
}

Status Context::judge(std::string_view what, int32_t code, const tn_error& error) {
  if (code == TN_OK) {
    const tn_error clean = marked_error();
    check(std::memcmp(&error, &clean, sizeof error) == 0, what,
          " returned TN_OK and wrote into the tn_error");
    return {};
  }
  if (code == TN_DEVICE_LOST) lost_device_.store(true, std::memory_order_relaxed);
  const std::string flaw = error_flaw(code, error);
  check(flaw.empty(), what, ": ", flaw);
  tn_error readable = error;
  if (!flaw.empty()) readable = no_error();
  Status said = status_of(code, readable);
  return Status(Error{.code = said.code(),
                      .message = words(what, " said ", code_name(code), ": ", said.message()),
                      .domain = said.error().domain,
                      .native_code = said.error().native_code,
                      .flags = said.error().flags});
}

Result<Library> Context::library() { return shared_library(settings_.plugin); }

Result<const Tables*> Context::tables() {
  if (!tables_) return enter(host_->table);
  return static_cast<const Tables*>(tables_.get());
}

Result<const Tables*> Context::enter(const tn_host& host) {
  const Library opened = TN_TRY(library());
  Tables entered = TN_TRY(conform::enter(opened.entry, host));
  const std::string missing = missing_function(entered);
  TN_TRY(require(missing.empty(), "the plugin has no ", missing, ", which every plugin must have"));
  tables_ = std::make_unique<Tables>(entered);
  return static_cast<const Tables*>(tables_.get());
}

Status Context::present() {
  const Tables* plugin = TN_TRY(tables());
  uint32_t count = 0;
  TN_TRY(call("device.count", [&](tn_error* e) { return plugin->device.count(plugin->plugin, &count, e); }));
  if (settings_.device < count) return {};
  return skip(words("device ", settings_.device, " does not exist here: the plugin counts ", count));
}

Result<Device*> Context::device() {
  if (!device_) {
    TN_TRY(present());
    device_ = TN_TRY(Device::open(*this, settings_.device));
  }
  return device_.get();
}

void Context::close_device() {
  if (!device_) return;
  const Status closed = device_->close();
  check(closed.ok(), "closing the device after the case: ", closed.message());
  device_.reset();
}

Finding Context::finish(Status returned) {
  const bool left_early = finding_.outcome != Outcome::passed;  // skip() or unsupported() was called
  if (!returned.ok() && !left_early) fail(std::string(returned.message()));
  close_device();
  if (!left_early && finding_.failures.empty() && checks_ == 0) {
    fail("the case checked nothing: it is a defect of the kit");
  }
  finding_.checks = checks_;
  finding_.drawn = random_.drawn();
  if (!finding_.failures.empty()) finding_.outcome = Outcome::failed;
  return std::move(finding_);
}

}  // namespace tenon::conform
