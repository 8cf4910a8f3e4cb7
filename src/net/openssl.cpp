// SPDX-License-Identifier: Apache-2.0
#include "net/internal/openssl.hpp"

#include <arpa/inet.h>
#include <array>
#include <ctime>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace tranche::net {
namespace {

std::string asn1_text(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string address_text(const ASN1_STRING* octets) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(octets) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(octets) != 16) return {};
  return inet_ntop(family, ASN1_STRING_get0_data(octets), text.data(), text.size()) != nullptr ? text.data()
                                                                                               : "";
}

std::string common_name(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  return name;
}

std::vector<std::string> alternative_names(X509* certificate) {
  std::vector<std::string> names;
  const Owned<GENERAL_NAMES> all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (!all) return names;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.push_back("DNS:" + asn1_text(name->d.dNSName));
    if (name->type == GEN_URI) names.push_back("URI:" + asn1_text(name->d.uniformResourceIdentifier));
    if (name->type == GEN_IPADD) names.push_back("IP:" + address_text(name->d.iPAddress));
  }
  return names;
}

std::string hexadecimal(const unsigned char* data, std::size_t size) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    out += kDigits[data[i] >> 4U];
    out += kDigits[data[i] & 15U];
  }
  return out;
}

int no_passphrase(char*, int, int, void*) {
  return 0;  // Never ask a terminal.
}

}  // namespace

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  if (code == 0) return "the connection broke";
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason != nullptr ? reason : "OpenSSL error " + std::to_string(code);
}

std::vector<Owned<X509>> parse_certificates(const std::string& pem) {
  std::vector<Owned<X509>> all;
  const Owned<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (Owned<X509> one{PEM_read_bio_X509(memory.get(), nullptr, no_passphrase, nullptr)})
    all.push_back(std::move(one));
  ERR_clear_error();
  return all;
}

Owned<EVP_PKEY> parse_private_key(const std::string& pem) {
  const Owned<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(memory.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

PeerCertificate describe(X509* certificate) {
  PeerCertificate out;
  out.common_name = common_name(certificate);
  out.names = alternative_names(certificate);
  const Owned<BIGNUM> serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  if (serial) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(BN_num_bytes(serial.get())));
    BN_bn2bin(serial.get(), bytes.data());
    out.serial = hexadecimal(bytes.data(), bytes.size());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1)
    out.fingerprint = hexadecimal(digest.data(), size);
  std::tm until{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until) == 1) out.not_after = timegm(&until);
  return out;
}

}  // namespace tranche::net
