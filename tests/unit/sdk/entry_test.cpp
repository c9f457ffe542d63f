// SPDX-License-Identifier: Apache-2.0
// entry_test.cpp: tn_plugin_entry: negotiation, the one instance, shutdown, and the host's services.
// Invariant: each case ends with the plugin shut down, so that the next makes a new instance.
#include "scripted.hpp"

using namespace scripted;
using tenon::author::Host;

namespace {

// Memory and copies only: every optional method is absent.
namespace bare {
struct Memory {
  uint64_t bytes() const { return 0; }
};
struct Stream {
  Status copy(const tn_span&, const tn_span&) { return {}; }
  Status fill(const tn_span&, uint64_t, uint32_t) { return {}; }
  Result<uint64_t> record(uint32_t) { return uint64_t{1}; }
  Status wait(Stream&, uint64_t) { return {}; }
  Result<uint64_t> completed() { return uint64_t{1}; }
  Status sync(uint64_t, uint64_t) { return {}; }
  Status finish(uint32_t) { return {}; }
};
struct Device {
  void limits(tn_device_limits&) const {}
  Status memory_info(tn_memory_info&) { return {}; }
  Result<std::unique_ptr<Memory>> allocate(uint32_t, uint64_t, uint64_t) {
    return std::make_unique<Memory>();
  }
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options&) {
    return std::make_unique<Stream>();
  }
};
struct Plugin {
  static constexpr tenon::author::Identity identity{
      .name = "bare", .vendor = "Tenon", .version = "0.1.0", .features = TN_FEATURE_SYNCHRONOUS};
  using Device = bare::Device;
  using Memory = bare::Memory;
  using Stream = bare::Stream;
  Result<uint32_t> device_count() { return 0u; }
  Status describe(uint32_t, tn_device_info&) { return {}; }
  Result<std::unique_ptr<Device>> open(uint32_t, const tn_device_options&) {
    return std::make_unique<Device>();
  }
};
}  // namespace bare

const tn_plugin* load(const tn_host& host, tn_error& error) {
  return tenon::author::entry<Plugin>(&host, &error);
}

tn_host offering(uint16_t min_major, uint16_t min_minor, uint16_t major, uint16_t minor) {
  tn_host host = plain_host();
  host.min_major = min_major;
  host.min_minor = min_minor;
  host.header.major = major;
  host.header.minor = minor;
  return host;
}

}  // namespace

TEST_CASE("entry: the descriptor says who the plugin is") {
  Session session;
  const tn_plugin& plugin = *session.plugin;
  CHECK(plugin.header.size == sizeof(tn_plugin));
  CHECK(plugin.header.major == TN_ABI_MAJOR);
  CHECK(std::string(plugin.name) == "scripted");
  CHECK(std::string(plugin.vendor) == "Tenon");
  CHECK(std::string(plugin.version) == "1.2.3");
  CHECK(plugin.features == TN_FEATURE_ADDRESSABLE);
  CHECK(plugin.device->header.size == sizeof(tn_device_api));
  CHECK(plugin.stream->header.size == sizeof(tn_stream_api));
  CHECK(plugin.kernel->header.size == sizeof(tn_kernel_api));
  CHECK(plugin.comm->header.size == sizeof(tn_comm_api));
}

TEST_CASE("entry: opening has no side effect") {
  Session session;
  CHECK(script.calls == std::vector<std::string>{"Plugin::Plugin"});
}

TEST_CASE("entry: an absent method leaves a null slot, an absent interface a null table") {
  tn_host host = plain_host();
  tn_error error = tenon::no_error();
  const tn_plugin* plugin = tenon::author::entry<bare::Plugin>(&host, &error);
  REQUIRE(plugin != nullptr);
  CHECK(plugin->features == TN_FEATURE_SYNCHRONOUS);
  CHECK(plugin->kernel == nullptr);
  CHECK(plugin->comm == nullptr);
  CHECK(!plugin->device->address);
  CHECK(!plugin->device->peer);
  CHECK(!plugin->stream->copy_strided);
  CHECK(!plugin->stream->timestamp);
  CHECK(!plugin->stream->host_call);
  CHECK(!plugin->stream->promise);
  CHECK(!plugin->stream->signal);
  CHECK(bool(plugin->device->open));
  CHECK(bool(plugin->stream->copy));
  CHECK(plugin->extension(plugin, "any/1") == nullptr);
  CHECK(plugin->quiesce(plugin, &error) == TN_OK);
  CHECK(plugin->shutdown(plugin, &error) == TN_OK);
}

TEST_CASE("entry: a host that is too old is refused with both ranges") {
  script = {};
  tn_error error = tenon::no_error();
  CHECK(load(offering(0, 1, 0, 9), error) == nullptr);
  CHECK(error.code == TN_VERSION);
  CHECK(std::string(error.message) ==
        "plugin 'scripted' speaks ABI 1.0 to 1.0, this host offers 0.1 to 0.9: use a newer "
        "host, or build the plugin with an older SDK");
  CHECK(script.calls.empty());  // not even constructed
}

TEST_CASE("entry: a host that left this ABI behind is refused with both ranges") {
  script = {};
  tn_error error = tenon::no_error();
  CHECK(load(offering(TN_ABI_MAJOR + 1, 0, TN_ABI_MAJOR + 1, 4), error) == nullptr);
  CHECK(error.code == TN_VERSION);
  CHECK(std::string(error.message).find("rebuild the plugin with a newer SDK") != std::string::npos);
}

TEST_CASE("entry: a newer host that still offers this ABI gets it") {
  script = {};
  tn_error error = tenon::no_error();
  for (const tn_host& host : {offering(1, 0, 1, 7), offering(1, 0, 3, 0)}) {
    const tn_plugin* plugin = load(host, error);
    REQUIRE_MESSAGE(plugin != nullptr, error.message);
    CHECK(plugin->header.major == TN_ABI_MAJOR);
    CHECK(plugin->header.minor == TN_ABI_MINOR);
    CHECK(plugin->shutdown(plugin, &error) == TN_OK);
  }
}

TEST_CASE("entry: a missing or sizeless host is refused") {
  tn_error error = tenon::no_error();
  CHECK(tenon::author::entry<Plugin>(nullptr, &error) == nullptr);
  CHECK(error.code == TN_INVALID);
  tn_host host = plain_host();
  host.header.size = 8;
  CHECK(load(host, error) == nullptr);
  CHECK(load(host, error) == nullptr);
  CHECK(tenon::author::entry<Plugin>(nullptr, nullptr) == nullptr);
}

TEST_CASE("entry: a constructor that throws is a refusal with its text") {
  script = {};
  script.acts["Plugin::Plugin"] = [] { return Status(TN_INTERNAL, "libvendor.so.3 is missing"); };
  tn_host host = plain_host();
  tn_error error = tenon::no_error();
  CHECK(load(host, error) == nullptr);
  CHECK(error.code == TN_INTERNAL);
  CHECK(std::string(error.message) == "libvendor.so.3 is missing");
  CHECK(std::string(error.domain) == "scripted");
  script.acts.clear();
  const tn_plugin* plugin = load(host, error);
  REQUIRE(plugin != nullptr);  // the next attempt starts afresh
  CHECK(plugin->shutdown(plugin, &error) == TN_OK);
}

TEST_CASE("entry: a second call gives the same descriptor and no second instance") {
  Session session;
  CHECK(load(session.host, session.error) == session.plugin);
  CHECK(script.calls.size() == 1);
}

TEST_CASE("entry: shutdown waits for every device to be closed") {
  Session session;
  tn_device* device = nullptr;
  REQUIRE(session.plugin->device->open(session.plugin, 0, nullptr, &device, &session.error) == TN_OK);
  CHECK(session.plugin->shutdown(session.plugin, &session.error) == TN_BUSY);
  CHECK(std::string(session.error.message).find("1 open device") != std::string::npos);
  CHECK(session.plugin->device->close(device, &session.error) == TN_OK);
}

TEST_CASE("entry: after shutdown the descriptor is refused until the plugin is entered again") {
  script = {};
  tn_host host = plain_host();
  tn_error error = tenon::no_error();
  const tn_plugin* plugin = load(host, error);
  REQUIRE(plugin != nullptr);
  CHECK(plugin->shutdown(plugin, &error) == TN_OK);
  uint32_t count = 7;
  CHECK(plugin->device->count(plugin, &count, &error) == TN_INVALID);
  CHECK(count == 0);
  CHECK(std::string(error.message).find("shut down") != std::string::npos);
  plugin = load(host, error);
  REQUIRE(plugin != nullptr);
  CHECK(plugin->device->count(plugin, &count, &error) == TN_OK);
  CHECK(plugin->shutdown(plugin, &error) == TN_OK);
}

TEST_CASE("entry: another plugin's descriptor is refused") {
  Session session;
  const tn_plugin stranger{};
  uint32_t count = 0;
  CHECK(session.plugin->device->count(&stranger, &count, &session.error) == TN_INVALID);
  CHECK(session.plugin->quiesce(&stranger, &session.error) == TN_INVALID);
  CHECK(session.plugin->shutdown(nullptr, &session.error) == TN_INVALID);
}

TEST_CASE("host: absent services have their stated defaults") {
  const Host silent;
  silent.log(TN_LOG_ERROR, "nobody hears this");
  silent.trace(TN_TRACE_COUNTER, "x", 1);
  CHECK(silent.log_level() == TN_LOG_WARN);
  CHECK(silent.option("threads") == nullptr);
  CHECK(!silent.lends_threads());
  CHECK(std::string(silent.name()).empty());
  void* memory = silent.allocate(100, 64);
  REQUIRE(memory != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0);
  silent.release(memory, 100, 64);
}

TEST_CASE("host: a service outside the host's size is not read") {
  struct Log {
    static void write(void*, int32_t, const char*, const char*) { FAIL("called beyond the table"); }
  };
  tn_host host = plain_host();
  host.log = &Log::write;
  host.header.size = offsetof(tn_host, log);
  const Host cut(&host, "scripted");
  cut.log(TN_LOG_ERROR, "not to be written");
  CHECK(std::string(cut.name()) == "test host");
  host.header.size = offsetof(tn_host, name);
  CHECK(std::string(cut.name()).empty());
}

TEST_CASE("host: lines and options carry the plugin's name") {
  struct Book {
    std::string line;
    static void log(void* context, int32_t level, const char* component, const char* words) {
      static_cast<Book*>(context)->line = tenon::author::text(level, " ", component, ": ", words);
    }
    static const char* option(void*, const char* plugin, const char* key) {
      return std::string_view(plugin) == "scripted" && std::string_view(key) == "threads" ? "12" : nullptr;
    }
  };
  Book book;
  tn_host table = plain_host();
  table.context = &book;
  table.log = &Book::log;
  table.option = &Book::option;
  const Host host(&table, "scripted");
  host.log(TN_LOG_INFO, "two devices");
  CHECK(book.line == "2 scripted: two devices");
  CHECK(*host.integer("threads", 1, 1, 64) == 12);
  CHECK(*host.integer("depth", 5, 1, 64) == 5);
  CHECK(host.integer("threads", 1, 1, 8).code() == TN_INVALID);
  CHECK(host.integer("threads", 1, 1, 8).message() ==
        "option 'threads' of plugin 'scripted' is '12': it must be a whole number from 1 to 8");
}

TEST_CASE("host: lent threads run the body over the whole range") {
  tn_host table = plain_host();
  table.parallel_for = [](void*, uint64_t count, uint64_t grain, void (*body)(void*, uint64_t, uint64_t),
                          void* argument) {
    for (uint64_t begin = 0; begin < count; begin += grain)
      body(argument, begin, std::min(count, begin + grain));
  };
  const Host host(&table, "scripted");
  REQUIRE(host.lends_threads());
  uint64_t sum = 0;
  host.parallel_for(10, 4, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) sum += i;
  });
  CHECK(sum == 45);
}
