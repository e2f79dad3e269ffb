//! Prevents two clients of one program from having the same call open at the same time: the second client waits for the
//! first one's call. If that call hangs, a second one would occupy another goroutine of the runtime.
//!
//! `watch` uses this, because its relist continues while its diagnosis makes calls of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Rpc;

/// A call with its request.
type Request = (Rpc, Vec<u8>);

/// The open calls of all clients that share them.
#[derive(Debug, Default)]
pub struct SharedCalls(Mutex<HashMap<Request, watch::Receiver<bool>>>);

/// The right to send a call. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct SendPermit {
    calls: Arc<SharedCalls>,
    request: Request,
    /// Whether the call reached its deadline without an answer.
    is_silent: watch::Sender<bool>,
}

impl SharedCalls {
    /// Waits until no other client has this call open. If the other client's call reaches its deadline without an answer,
    /// never returns: the call hangs, and the caller's own deadline ends the wait.
    pub(super) async fn permit(self: &Arc<Self>, rpc: Rpc, request: Vec<u8>) -> SendPermit {
        let request = (rpc, request);
        loop {
            let mut other = {
                let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(other) = open.get(&request) else {
                    let (is_silent, other) = watch::channel(false);
                    open.insert(request.clone(), other);
                    return SendPermit { calls: Arc::clone(self), request, is_silent };
                };
                other.clone()
            };
            // The error says that the other call has an answer or was cancelled, so this call may be sent.
            if other.wait_for(|is_silent| *is_silent).await.is_ok() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl SendPermit {
    /// Notes that the call reached its deadline without an answer.
    pub(super) fn set_silent(&self) {
        self.is_silent.send_replace(true);
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Whether a second client may send this call within a simulated hour.
    async fn may_send(calls: &Arc<SharedCalls>, id: &str) -> bool {
        timeout(Duration::from_secs(3600), calls.permit(Rpc::ContainerStatus, id.into())).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_same_call_of_another_client_and_for_no_other() {
        let calls = Arc::<SharedCalls>::default();
        let permit = calls.permit(Rpc::ContainerStatus, b"c1".to_vec()).await;
        assert!(may_send(&calls, "c2").await);
        assert!(!may_send(&calls, "c1").await);
        let mut second = std::pin::pin!(calls.permit(Rpc::ContainerStatus, b"c1".to_vec()));
        assert!(timeout(Duration::from_secs(3600), &mut second).await.is_err());
        drop(permit);
        drop(second.await);
        assert!(may_send(&calls, "c1").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_is_not_sent_by_those_that_waited_for_it() {
        let calls = Arc::<SharedCalls>::default();
        let permit = calls.permit(Rpc::ContainerStatus, b"c1".to_vec()).await;
        let waiting = tokio::spawn({
            let calls = Arc::clone(&calls);
            async move { may_send(&calls, "c1").await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        permit.set_silent();
        drop(permit);
        assert!(!waiting.await.unwrap());
        // A later call is new, as the kubelet's next relist is.
        assert!(may_send(&calls, "c1").await);
    }
}
