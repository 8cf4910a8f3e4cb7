// SPDX-License-Identifier: Apache-2.0
#include "net/certificate_authority.hpp"

#include <arpa/inet.h>
#include <array>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdexcept>

#include "net/internal/openssl.hpp"

namespace tranche::net {
namespace {

enum class Purpose { kAuthority, kServer, kClient };

struct Subject {
  std::string common_name;
  std::vector<std::string> names;
  Purpose purpose = Purpose::kClient;
  Validity validity;
};

struct Issuer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};

void expect(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("certificates: ") + what + ": " + openssl_error());
}

Owned<EVP_PKEY> new_key() {
  Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  expect(key != nullptr, "cannot make a key");
  return key;
}

template <class Write>
std::string to_pem(Write write) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  expect(memory && write(memory.get()) == 1, "cannot write PEM");
  char* data = nullptr;
  const long size = BIO_ctrl(memory.get(), BIO_CTRL_INFO, 0, static_cast<void*>(&data));
  return {data, static_cast<std::size_t>(size)};
}

std::string key_to_pem(EVP_PKEY* key) {
  return to_pem([&](BIO* out) {
    return PEM_write_bio_PKCS8PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string certificate_to_pem(X509* certificate) {
  return to_pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

void set_name(X509_NAME* name, const std::string& common_name) {
  const auto add = [&](const char* field, const std::string& value) {
    expect(X509_NAME_add_entry_by_txt(name,
                                      field,
                                      MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()),
                                      -1,
                                      0) == 1,
           "this name cannot stand in a certificate");
  };
  add("O", "Tranche");
  add("CN", common_name);
}

void add_extension(X509* certificate, X509V3_CTX* context, int kind, const std::string& value) {
  const Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, context, kind, value.c_str()));
  expect(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "cannot add an extension");
}

// "DNS:a,IP:1.2.3.4". A name with a comma could smuggle in another entry.
std::string alternative_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:*_") !=
        std::string::npos)
      throw std::runtime_error("certificates: '" + name + "' is neither a DNS name nor an address");
    std::array<unsigned char, 16> address{};
    const bool numeric = inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
                         inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
    out.append(out.empty() ? "" : ",").append(numeric ? "IP:" : "DNS:").append(name);
  }
  return out;
}

void set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  expect(RAND_bytes(bytes.data(), bytes.size()) == 1, "no random numbers");
  bytes[0] &= 0x7FU;  // Positive, as the standard asks.
  const Owned<BIGNUM> number(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  expect(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
         "cannot number it");
}

void set_time(ASN1_TIME* field, std::chrono::system_clock::time_point at) {
  expect(ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(at)) != nullptr, "cannot date it");
}

// Without an issuer it signs itself.
Owned<X509> certify(EVP_PKEY* key, const Subject& subject, Issuer issuer) {
  Owned<X509> certificate(X509_new());
  expect(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1, "no memory");
  set_serial(certificate.get());
  set_time(X509_getm_notBefore(certificate.get()), subject.validity.from);
  set_time(X509_getm_notAfter(certificate.get()), subject.validity.until);
  set_name(X509_get_subject_name(certificate.get()), subject.common_name);
  if (issuer.certificate == nullptr) issuer = {certificate.get(), key};
  expect(X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.certificate)) == 1,
         "no issuer");
  expect(X509_set_pubkey(certificate.get(), key) == 1, "unusable key");
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer.certificate, certificate.get(), nullptr, nullptr, 0);
  const bool authority = subject.purpose == Purpose::kAuthority;
  add_extension(certificate.get(),
                &context,
                NID_basic_constraints,
                authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
  add_extension(certificate.get(),
                &context,
                NID_key_usage,
                authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
  add_extension(certificate.get(), &context, NID_subject_key_identifier, "hash");
  if (!authority) {
    add_extension(certificate.get(), &context, NID_authority_key_identifier, "keyid");
    add_extension(certificate.get(),
                  &context,
                  NID_ext_key_usage,
                  subject.purpose == Purpose::kServer ? "serverAuth" : "clientAuth");
  }
  if (!subject.names.empty())
    add_extension(certificate.get(), &context, NID_subject_alt_name, alternative_names(subject.names));
  expect(X509_sign(certificate.get(), issuer.key, EVP_sha256()) > 0, "cannot sign");
  return certificate;
}

Identity issue(const Identity& authority, const Subject& subject) {
  const std::vector<Owned<X509>> certificate = parse_certificates(authority.certificate_pem);
  const Owned<EVP_PKEY> authority_key = parse_private_key(authority.key_pem);
  const Owned<EVP_PKEY> key = new_key();
  const Owned<X509> issued = certify(key.get(), subject, {certificate.at(0).get(), authority_key.get()});
  return {certificate_to_pem(issued.get()), key_to_pem(key.get())};
}

struct RequestFree {
  void operator()(X509_REQ* it) const { X509_REQ_free(it); }
};

}  // namespace

Validity Validity::lasting(std::chrono::seconds life) {
  const auto now = std::chrono::system_clock::now();
  return {now - std::chrono::minutes{5}, now + life};
}

CertificateRequest make_certificate_request(const std::string& common_name) {
  const Owned<EVP_PKEY> key = new_key();
  const std::unique_ptr<X509_REQ, RequestFree> request(X509_REQ_new());
  expect(request != nullptr, "no memory");
  set_name(X509_REQ_get_subject_name(request.get()), common_name);
  expect(X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
             X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
         "cannot sign a request");
  return {to_pem([&](BIO* out) { return PEM_write_bio_X509_REQ(out, request.get()); }),
          key_to_pem(key.get())};
}

CertificateAuthority CertificateAuthority::make(const std::string& name, Validity validity) {
  const Owned<EVP_PKEY> key = new_key();
  const Owned<X509> certificate = certify(key.get(), {name, {}, Purpose::kAuthority, validity}, {});
  return CertificateAuthority({certificate_to_pem(certificate.get()), key_to_pem(key.get())});
}

CertificateAuthority CertificateAuthority::load(const Identity& identity) {
  const std::vector<Owned<X509>> certificate = parse_certificates(identity.certificate_pem);
  const Owned<EVP_PKEY> key = parse_private_key(identity.key_pem);
  if (certificate.empty())
    throw std::runtime_error("certificates: the authority's certificate is unreadable");
  if (!key) throw std::runtime_error("certificates: the authority's key is unreadable");
  if (X509_check_ca(certificate[0].get()) == 0)
    throw std::runtime_error("certificates: this certificate may not vouch for others");
  if (X509_check_private_key(certificate[0].get(), key.get()) != 1)
    throw std::runtime_error("certificates: the authority's key does not belong to its certificate");
  return CertificateAuthority(identity);
}

Identity CertificateAuthority::issue_server(const std::vector<std::string>& names, Validity validity) const {
  if (names.empty()) throw std::runtime_error("certificates: a server needs a name");
  return issue(identity_, {names.front(), names, Purpose::kServer, validity});
}

Identity CertificateAuthority::issue_client(const std::string& common_name, Validity validity) const {
  return issue(identity_, {common_name, {}, Purpose::kClient, validity});
}

Result<std::string, SigningRefusal> CertificateAuthority::sign_client(const std::string& request_pem,
                                                                      const std::string& common_name,
                                                                      Validity validity) const {
  const Owned<BIO> memory(BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size())));
  const std::unique_ptr<X509_REQ, RequestFree> request(
      PEM_read_bio_X509_REQ(memory.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!request) return refuse(SigningRefusal::kUnreadable);
  const Owned<EVP_PKEY> key(X509_REQ_get_pubkey(request.get()));
  if (!key || X509_REQ_verify(request.get(), key.get()) != 1) {
    ERR_clear_error();
    return refuse(SigningRefusal::kNotSignedByItsKey);
  }
  if (EVP_PKEY_get_security_bits(key.get()) < 112) return refuse(SigningRefusal::kKeyTooWeak);
  const std::vector<Owned<X509>> certificate = parse_certificates(identity_.certificate_pem);
  const Owned<EVP_PKEY> authority_key = parse_private_key(identity_.key_pem);
  const Owned<X509> issued = certify(key.get(),
                                     {common_name, {}, Purpose::kClient, validity},
                                     {certificate.at(0).get(), authority_key.get()});
  return certificate_to_pem(issued.get());
}

PeerCertificate describe_certificate(const std::string& certificate_pem) {
  const std::vector<Owned<X509>> certificate = parse_certificates(certificate_pem);
  if (certificate.empty()) throw std::runtime_error("certificates: not a PEM certificate");
  return describe(certificate[0].get());
}

}  // namespace tranche::net
