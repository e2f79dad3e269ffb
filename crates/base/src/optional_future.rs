//! Waits for futures that may be absent, so that a branch of `select!` can be optional.

use std::pin::Pin;

/// Waits for `future`; never returns if there is no future.
pub async fn or_pending<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// A place for at most one running task.
pub struct SingleTask<'a, T>(Option<Pin<Box<dyn Future<Output = T> + 'a>>>);

impl<T> Default for SingleTask<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'a, T> SingleTask<'a, T> {
    /// Whether a task runs.
    pub const fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a task; abandons the task that ran before.
    pub fn start(&mut self, task: impl Future<Output = T> + 'a) {
        self.0 = Some(Box::pin(task));
    }

    /// Waits for the result of the task; never returns if no task runs.
    pub async fn result(&mut self) -> T {
        let result = or_pending(self.0.as_mut()).await;
        self.0 = None;
        result
    }
}
