//! Waits for a future that may be absent, as one arm of a `select!`.

/// Returns the output of `future`; waits for ever if there is none.
pub async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
