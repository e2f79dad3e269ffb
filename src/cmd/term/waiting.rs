//! [`WaitingLine`]: the progress line of a command that reads several sources at once. It names those that have not answered
//! yet, and says for how long the command has waited.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use crate::clock::{Clock, Mono};
use crate::cmd::node::Node;
use crate::cmd::term::streams::ProgressLine;
use crate::report::duration::elapsed;
use crate::threads::locked;

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
    pub fn begin(node: &'a Node) -> Self {
        let clock = &*node.clock;
        let bar = ProgressLine::sentence(node.global.quiet);
        Self { bar, clock, began: clock.mono(), open: Mutex::default() }
    }

    /// Names `source` in the line until `answer` is there.
    pub async fn part<T>(&self, source: &'static str, answer: impl Future<Output = T>) -> T {
        self.change(|open| open.push(source));
        let answer = answer.await;
        self.change(|open| open.retain(|other| *other != source));
        answer
    }

    /// Shows the line until `work` ends, then removes it.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.bar.during(|| self.line(), work).await
    }

    fn line(&self) -> Option<String> {
        let waited = self.clock.mono().since(self.began);
        let line = || format!("waiting {} for {}", elapsed(waited), self.change(|open| open.join(", ")));
        (waited >= SHOWN_AFTER).then(line)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<&'static str>) -> T) -> T {
        change(&mut locked(&self.open))
    }
}
