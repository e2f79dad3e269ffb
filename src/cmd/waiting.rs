//! [`WaitingLine`]: the progress line of a command that reads several sources at once. It names those that have not answered
//! yet, and says for how long the command has waited.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::context::Context;
use super::streams::ProgressLine;
use crate::clock::{Clock, Mono};
use crate::report::duration::elapsed;

/// The refresh interval of the line.
const REFRESH: Duration = Duration::from_millis(120);

/// How long the command must have waited before the line is shown.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// The line on stderr, if stderr is a terminal that can rewrite a line.
pub struct WaitingLine<'a> {
    bar: ProgressLine,
    clock: &'a dyn Clock,
    began: Mono,
    /// The sources without an answer.
    open: Mutex<Vec<&'static str>>,
}

impl<'a> WaitingLine<'a> {
    /// Creates the line.
    pub fn begin(context: &'a Context) -> Self {
        let is_wanted = !context.quiet && Context::can_rewrite();
        let clock = &*context.clock;
        let bar = ProgressLine::begin(is_wanted, "{wide_msg}", None);
        Self { bar, clock, began: clock.mono(), open: Mutex::default() }
    }

    /// Names `source` in the line until `answer` is there.
    pub async fn part<T>(&self, source: &'static str, answer: impl Future<Output = T>) -> T {
        self.change(|open| open.push(source));
        let answer = answer.await;
        self.change(|open| open.retain(|other| *other != source));
        answer
    }

    /// Refreshes the line until `work` ends, then removes it.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let done = tokio::select! {
            done = work => done,
            never = self.refresh_forever() => match never {},
        };
        self.bar.end();
        done
    }

    /// Refreshes the line. A future does this and not a thread, because the node may have no free thread.
    async fn refresh_forever(&self) -> Infallible {
        loop {
            tokio::time::sleep(REFRESH).await;
            let waited = self.clock.mono().since(self.began);
            if waited >= SHOWN_AFTER {
                let open = self.change(|open| open.join(", "));
                self.bar.show(&format!("waiting {} for {open}", elapsed(waited)));
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<&'static str>) -> T) -> T {
        change(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
