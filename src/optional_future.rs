//! Waits for work that may be absent, so that `select!` can wait for several pieces of optional work at once.

use std::pin::Pin;

/// Waits for `future`; waits for ever if there is none.
pub async fn or_pending<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// A task of which at most one instance runs.
pub struct SingleTask<'a, T>(Option<Pin<Box<dyn Future<Output = T> + 'a>>>);

impl<T> Default for SingleTask<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'a, T> SingleTask<'a, T> {
    /// Whether the task runs.
    pub const fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Replaces the task.
    pub fn start(&mut self, task: impl Future<Output = T> + 'a) {
        self.0 = Some(Box::pin(task));
    }

    /// Waits for the result of the task; waits for ever if no task runs.
    pub async fn result(&mut self) -> T {
        let result = or_pending(self.0.as_mut()).await;
        self.0 = None;
        result
    }
}
