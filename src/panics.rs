//! A fault of our own, held where it happens: what is already known is worth more than the rest of the run.
//!
//! A panic in a call is an error of that call, one in a rule is a rule that was not applied, and one anywhere else ends the
//! command with the exit status of "no answer" and a sentence that asks for a report.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::pin;
use std::task::Poll;

use crate::report::escape::escaped;

/// Runs `work`; what it panicked with, if it did. What it was changing is as far as it had come.
pub fn held<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| words(&*payload))
}

/// The same for a future.
pub async fn held_future<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match held(|| work.as_mut().poll(cx)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(why) => Poll::Ready(Err(why)),
    })
    .await
}

/// Says on stderr where it happened, on one line that no terminal takes for a command.
pub fn say_where() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
        let line = format!("fault: plegctl itself failed{place}: {}", words(info.payload()));
        // A closed stderr leaves nothing to be said.
        let _ = writeln!(io::stderr(), "{}", escaped(&line));
    }));
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_panics_is_told_and_goes_no_further() {
        assert_eq!(held(|| 1), Ok(1));
        assert_eq!(held(|| panic!("{} of a kind", 3)).map(|(): ()| ()), Err("3 of a kind".to_owned()));
    }

    #[tokio::test]
    async fn a_future_may_panic_at_its_second_turn() {
        let late = async {
            tokio::task::yield_now().await;
            panic!("late");
        };
        assert_eq!(held_future(late).await.map(|(): ()| ()), Err("late".to_owned()));
        assert_eq!(held_future(async { 2 }).await, Ok(2));
    }

    /// Nothing is held where a panic aborts.
    #[test]
    fn the_shipped_program_unwinds() {
        let manifest = include_str!("../Cargo.toml");
        assert!(!manifest.lines().any(|line| line.trim() == "panic = \"abort\""), "{manifest}");
    }
}
