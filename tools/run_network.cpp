// SPDX-License-Identifier: Apache-2.0
// run_network.cpp: this machine's name, its interfaces and a secret; the rest of run_process.hpp.
#include "run_process.hpp"
#include "text.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <memory>

namespace tenon::tool::run {

namespace {

struct Interface {
  std::string name, address;
  bool four;
};

// Those with an address that another host can use: IPv6's link-local ones need a zone, so they are left out.
std::vector<Interface> interfaces() {
  ifaddrs* all = nullptr;
  std::vector<Interface> out;
  if (getifaddrs(&all) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(one->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::string_view(text).find('%') != std::string_view::npos) continue;
    out.push_back({one->ifa_name, text, family == AF_INET});
  }
  return out;
}

}  // namespace

Result<std::string> secret() {
  std::array<unsigned char, 16> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0)
    return Status(TN_INTERNAL, "the system gives no random bytes for the store's token");
  std::string out;
  for (const unsigned char byte : bytes)
    out += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return out;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Result<std::string> interface_address(const std::string& name) {
  const std::vector<Interface> all = interfaces();
  std::vector<std::string> known;
  const Interface* found = nullptr;
  for (const Interface& one : all) {
    known.push_back(one.name + " (" + one.address + ")");
    if (one.address == name) return one.address;
    if (one.name == name && (found == nullptr || (one.four && !found->four))) found = &one;
  }
  if (found != nullptr) return found->address;
  return Status(TN_NOT_FOUND,
                "--interface is '" + name + "': this machine has no such interface; it has " + listed(known));
}

}  // namespace tenon::tool::run
