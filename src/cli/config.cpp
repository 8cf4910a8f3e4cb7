// SPDX-License-Identifier: Apache-2.0
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include "cli/config.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <toml++/toml.h>
#include <unistd.h>

#include "cli/failure.hpp"

namespace tranche::cli {
namespace {

toml::table parse_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return {};
    throw Failure(kOther, {"cannot read " + file.string(), "check who owns it and its mode"});
  }
  std::ostringstream text;
  text << in.rdbuf();
  toml::parse_result parsed = toml::parse(text.str());
  if (!parsed) {
    throw Failure(kUsage,
                  {file.string() + ":" + std::to_string(parsed.error().source().begin.line) + ": " +
                       std::string(parsed.error().description()),
                   "correct the file, or remove it and run: tranche login"});
  }
  return std::move(parsed).table();
}

std::string text_of(const toml::table& table, std::string_view key) {
  return table[key].value_or(std::string{});
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      static constexpr std::string_view kHex = "0123456789ABCDEF";
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A reader never sees half a file: written beside it, made durable, then put in its place.
void write_private(const std::filesystem::path& file, const std::string& text) {
  const auto fail = [&](const std::string& what) {
    throw Failure(kOther, {what + ": " + std::generic_category().message(errno)});
  };
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());  // Mode 0600.
  if (descriptor < 0) fail("cannot write beside " + file.string());
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool complete = rest.empty() && ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (!complete || ::rename(temporary.c_str(), file.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail("cannot write " + file.string());
  }
}

}  // namespace

Config load_config(const std::filesystem::path& file) {
  const toml::table root = parse_file(file);
  Config config{.current = text_of(root, "current")};
  if (const toml::table* contexts = root["contexts"].as_table()) {
    for (const auto& [name, node] : *contexts) {
      const toml::table* entry = node.as_table();
      if (entry == nullptr) continue;
      config.contexts[std::string(name.str())] = {.server = text_of(*entry, "server"),
                                                  .subscriber = text_of(*entry, "subscriber"),
                                                  .ca_file = text_of(*entry, "ca_file")};
    }
  }
  return config;
}

Credentials load_credentials(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & 077U) != 0) {
    throw Failure(kForbidden,
                  {file.string() + " can be read by others, so the tokens in it are no longer secret",
                   "revoke them (tranche token revoke), then: chmod 600 " + file.string()});
  }
  Credentials credentials;
  for (const auto& [name, node] : parse_file(file)) {
    if (const toml::table* entry = node.as_table()) {
      credentials[std::string(name.str())] = {.token = text_of(*entry, "token"),
                                              .token_id = text_of(*entry, "token_id")};
    }
  }
  return credentials;
}

void save_config(const std::filesystem::path& file, const Config& config) {
  std::string text =
      "# Servers that `tranche` knows; written by `tranche login` and `tranche context use`.\n";
  text += "current = " + toml_text(config.current) + "\n";
  for (const auto& [name, context] : config.contexts) {
    text += "\n[contexts." + toml_text(name) + "]\nserver = " + toml_text(context.server) + "\n";
    if (!context.subscriber.empty()) text += "subscriber = " + toml_text(context.subscriber) + "\n";
    if (!context.ca_file.empty()) text += "ca_file = " + toml_text(context.ca_file) + "\n";
  }
  write_private(file, text);
}

void save_credentials(const std::filesystem::path& file, const Credentials& credentials) {
  std::string text = "# Secrets: keep this file to yourself.\n";
  for (const auto& [name, credential] : credentials) {
    text += "\n[" + toml_text(name) + "]\ntoken = " + toml_text(credential.token) + "\n";
    if (!credential.token_id.empty()) text += "token_id = " + toml_text(credential.token_id) + "\n";
  }
  write_private(file, text);
}

Target choose_target(const TargetWish& wish, const Config& config, const Credentials& credentials) {
  const auto first = [](const std::string& a, const std::string& b) { return a.empty() ? b : a; };
  const std::string named_server = first(wish.server_flag, wish.server_environment);
  const std::string named_context = first(wish.context_flag, wish.context_environment);
  Target target{.server = named_server};
  if (!named_context.empty()) {
    if (!config.contexts.contains(named_context)) {
      throw Failure(kUsage, {"no context '" + named_context + "'", "see: tranche context list"});
    }
    target.context = named_context;
  } else if (named_server.empty()) {
    target.context = config.contexts.contains(config.current) ? config.current : "";
  } else {
    for (const auto& [name, context] : config.contexts) {
      if (context.server == named_server) target.context = name;
    }
  }
  if (const auto found = config.contexts.find(target.context); found != config.contexts.end()) {
    if (target.server.empty()) target.server = found->second.server;
    target.subscriber = found->second.subscriber;
    target.ca_file = found->second.ca_file;
    // A token goes to the server it was issued by, and to no other.
    const auto credential = credentials.find(target.context);
    if (credential != credentials.end() && target.server == found->second.server) {
      target.token = credential->second.token;
    }
  }
  if (target.server.empty()) target.server = kDefaultServer;
  if (!wish.token_environment.empty()) target.token = wish.token_environment;
  target.subscriber = first(first(wish.subscriber_flag, wish.subscriber_environment), target.subscriber);
  while (target.server.ends_with('/')) target.server.pop_back();
  return target;
}

}  // namespace tranche::cli
