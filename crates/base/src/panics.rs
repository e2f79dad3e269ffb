//! Catches panics of plegctl, so that a programming error in one part does not lose the results of the other parts.
//!
//! A panic in a call becomes an error of that call, and a panic in a rule means that the rule is not applied. Any
//! other panic ends the command with the exit status for "no answer" and the request to report it.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::task::Poll;

/// Runs `work` and returns its panic message as an error. After a panic, values that `work` was changing may be
/// inconsistent.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| panic_message(&*payload))
}

/// Runs a future and returns its panic message as an error.
pub async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match catch_panic(|| work.as_mut().poll(cx)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(why) => Poll::Ready(Err(why)),
    })
    .await
}

/// Returns the message of a panic.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        assert_eq!(catch_panic(|| panic!("{} of a kind", 3)).map(|(): ()| ()), Err("3 of a kind".to_owned()));
    }

    #[tokio::test]
    async fn a_panic_of_a_future_becomes_an_error_also_after_its_first_poll() {
        let late = async {
            tokio::task::yield_now().await;
            panic!("late");
        };
        assert_eq!(catch_panic_async(late).await.map(|(): ()| ()), Err("late".to_owned()));
        assert_eq!(catch_panic_async(async { 2 }).await, Ok(2));
    }

    /// Panics can only be caught if the release profile unwinds.
    #[test]
    fn the_shipped_program_unwinds() {
        let (_, release) = include_str!("../../../Cargo.toml").split_once("[profile.release]\n").unwrap();
        let release = release.split("\n[").next().unwrap();
        assert!(!release.contains("panic ="), "{release}");
    }
}
