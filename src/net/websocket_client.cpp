// SPDX-License-Identifier: Apache-2.0
#include "net/websocket_client.hpp"

#include <boost/asio/post.hpp>
#include <future>

#include "net/internal/dial.hpp"
#include "net/internal/loop.hpp"
#include "net/internal/websocket_session.hpp"

namespace tranche::net {
namespace {

constexpr std::chrono::milliseconds kTick{250};

// Stands between the session and the caller until the handshake is decided.
struct Opening {
  std::promise<std::string> decided;  // Empty: open. Otherwise what went wrong.
  bool open = false;                  // The loop's thread only.
};

WebSocketCallbacks announcing(WebSocketCallbacks callbacks, const std::shared_ptr<Opening>& opening) {
  WebSocketCallbacks out;
  out.on_open = [opening, on_open = std::move(callbacks.on_open)](WebSocket& socket) {
    opening->open = true;
    opening->decided.set_value({});
    if (on_open) on_open(socket);
  };
  out.on_message = std::move(callbacks.on_message);
  out.on_close = [opening, on_close = std::move(callbacks.on_close)](std::uint16_t code, std::string reason) {
    if (!opening->open) return opening->decided.set_value(reason.empty() ? "closed" : reason);
    if (on_close) on_close(code, std::move(reason));
  };
  return out;
}

}  // namespace

class WebSocketClient::State {
 public:
  State() : loop_(std::make_shared<Loop>(kTick)) {}
  ~State() { loop_->stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::string open(Dialled dialled,
                   WebSocketTarget target,
                   WebSocketCallbacks callbacks,
                   const WebSocketOptions& options) {
    const auto opening = std::make_shared<Opening>();
    std::future<std::string> decided = opening->decided.get_future();
    session_ = make_websocket_session(loop_, announcing(std::move(callbacks), opening), options);
    loop_->start();
    WebSocketUpgrade upgrade;
    upgrade.descriptor = dialled.descriptor.release();
    upgrade.stream = std::move(dialled.stream);
    const auto shared = std::make_shared<WebSocketUpgrade>(std::move(upgrade));
    boost::asio::post(loop_->io(), [session = session_, shared, target = std::move(target)] {
      session->connect(std::move(*shared), target);
    });
    return decided.get();
  }

  WebSocketSession& session() { return *session_; }

 private:
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<WebSocketSession> session_;
};

Result<std::unique_ptr<WebSocketClient>, ClientFault> WebSocketClient::connect(
    const ClientOptions& where,
    const std::string& path,
    const HeaderList& headers,
    WebSocketCallbacks callbacks,
    const WebSocketOptions& options) {
  std::unique_ptr<TlsContext> tls;
  if (where.tls) tls = std::make_unique<TlsContext>(*where.tls);
  Result<Dialled, ClientFault> dialled = dial(where, tls.get());
  if (!dialled) return refuse(dialled.error());
  auto state = std::make_unique<State>();
  WebSocketTarget target{where.host + ":" + std::to_string(where.port), path, headers};
  const std::string problem =
      state->open(std::move(*dialled), std::move(target), std::move(callbacks), options);
  if (!problem.empty()) {
    // Under TLS 1.3 a server that refuses our certificate says so only after our own handshake is done.
    return refuse(fault_at(where, FaultKind::kBroken, problem));
  }
  return std::unique_ptr<WebSocketClient>(new WebSocketClient(std::move(state)));
}

WebSocketClient::WebSocketClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
WebSocketClient::~WebSocketClient() = default;

bool WebSocketClient::send(std::string message) {
  return state_->session().send(std::move(message));
}

void WebSocketClient::close(std::uint16_t code, std::string reason) {
  state_->session().close(code, std::move(reason));
}

bool WebSocketClient::open() const {
  return state_->session().open();
}

}  // namespace tranche::net
