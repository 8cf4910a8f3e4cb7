// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenSSL objects that free themselves, and PEM in and out. For the .cpp files of net only.
#include <memory>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.hpp"

namespace tranche::net {

struct OpensslFree {
  void operator()(X509* it) const { X509_free(it); }
  void operator()(EVP_PKEY* it) const { EVP_PKEY_free(it); }
  void operator()(BIO* it) const { BIO_free_all(it); }
  void operator()(SSL* it) const { SSL_free(it); }
  void operator()(SSL_CTX* it) const { SSL_CTX_free(it); }
  void operator()(X509_EXTENSION* it) const { X509_EXTENSION_free(it); }
  void operator()(BIGNUM* it) const { BN_free(it); }
  void operator()(GENERAL_NAMES* it) const { GENERAL_NAMES_free(it); }
};
template <class T>
using Owned = std::unique_ptr<T, OpensslFree>;

std::string openssl_error();  // The first error waiting in this thread, in words.
std::vector<Owned<X509>> parse_certificates(const std::string& pem);
Owned<EVP_PKEY> parse_private_key(const std::string& pem);
PeerCertificate describe(X509* certificate);

}  // namespace tranche::net
