//! Drives the sources as the kubelet does: when to look, when to ask, when to try again.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};

use super::file::{FileSource, Scan};
use super::{Source, Wanted};
use crate::host::{PathWatch, Seen};

/// How often a watch that cannot be made is tried (retryPeriod in `pkg/kubelet/config/file_linux.go`).
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause between two tries after a watch failed (maxRetryPeriod there).
const LONGEST_RETRY: Duration = Duration::from_secs(20);

/// What a source has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Its whole set.
    Set(Source, Vec<Arc<Wanted>>),
    /// Something is wrong with it. What was known stays.
    Trouble(Source, String),
}

/// Follows a path until nobody listens.
pub async fn follow_files(mut source: FileSource, every: Duration, heard: Sender<Heard>) {
    let mut ticks = interval(every);
    // Go's ticker drops ticks for a slow reader.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut watch = Watch::default();
    loop {
        let scan = tokio::select! {
            biased;
            _ = ticks.tick() => source.scan(),
            step = watch.step(source.path()) => match step {
                Step::Event(event) => on_event(&mut source, &event),
                Step::Watching => continue,
                // The kubelet sends an empty set for a path that is not there, each time it tries to watch it.
                Step::Missing => Scan { set: Some(Vec::new()), ..Scan::default() },
                Step::Failed(why) => Scan { error: Some(why), ..Scan::default() },
            },
        };
        if tell(scan, &heard).await.is_err() {
            return;
        }
    }
}

fn on_event(source: &mut FileSource, event: &Seen) -> Scan {
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    match event {
        Seen::Changed(path) | Seen::Removed(path) if hidden(path) => Scan::default(),
        Seen::Changed(path) => source.changed(path),
        Seen::Removed(path) => source.removed(path),
    }
}

/// Nobody listens any more.
pub(super) struct Deaf;

async fn tell(scan: Scan, heard: &Sender<Heard>) -> Result<(), Deaf> {
    let refused =
        scan.refused.into_iter().map(|refused| format!("{}: {}", refused.path.display(), refused.reason));
    for trouble in scan.error.into_iter().chain(refused) {
        heard.send(Heard::Trouble(Source::File, trouble)).await.map_err(|_| Deaf)?;
    }
    if let Some(set) = scan.set {
        heard.send(Heard::Set(Source::File, set)).await.map_err(|_| Deaf)?;
    }
    Ok(())
}

enum Step {
    Event(Seen),
    Watching,
    Missing,
    Failed(String),
}

/// The watch, or the pause before the next try at one.
#[derive(Default)]
struct Watch {
    running: Option<PathWatch>,
    /// Kept here, because a scan that comes in between must not let it begin anew.
    pause: Option<Pin<Box<Sleep>>>,
    failures: u32,
}

impl Watch {
    /// What happens next. May be dropped at any wait and called again.
    async fn step(&mut self, path: &Path) -> Step {
        if let Some(watch) = &mut self.running {
            return match watch.next().await {
                Ok(event) => Step::Event(event),
                Err(why) => {
                    self.running = None;
                    self.failed(path, &why)
                }
            };
        }
        if let Some(pause) = &mut self.pause {
            pause.await;
        }
        self.pause = None;
        match PathWatch::new(path) {
            Ok(watch) => {
                self.running = Some(watch);
                self.failures = 0;
                // What happened before the watch stood is found by the next scan.
                Step::Watching
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                self.pause = Some(Box::pin(sleep(RETRY)));
                Step::Missing
            }
            Err(why) => self.failed(path, &why),
        }
    }

    fn failed(&mut self, path: &Path, why: &io::Error) -> Step {
        self.pause = Some(Box::pin(sleep(back_off(self.failures, LONGEST_RETRY))));
        self.failures = self.failures.saturating_add(1);
        let hint = limit(why).map_or_else(String::new, |sysctl| format!(" (see sysctl {sysctl})"));
        Step::Failed(format!(
            "cannot watch {}: {why}{hint}; it is only looked at every so often",
            path.display()
        ))
    }
}

/// The setting of the kernel that an error of inotify is about.
fn limit(why: &io::Error) -> Option<&'static str> {
    let number = why.raw_os_error()?;
    if number == rustix::io::Errno::NOSPC.raw_os_error() {
        Some("fs.inotify.max_user_watches")
    } else if number == rustix::io::Errno::MFILE.raw_os_error() {
        Some("fs.inotify.max_user_instances")
    } else {
        None
    }
}

/// The pause after so many failures in a row before this one: it doubles with each.
pub(super) fn back_off(failures: u32, longest: Duration) -> Duration {
    let doubled = 1u32.checked_shl(failures).filter(|doubled| *doubled > 0).unwrap_or(u32::MAX);
    RETRY.saturating_mul(doubled).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_longest() {
        let pauses: Vec<u64> =
            [0, 1, 2, 4, 5, 31, 32, 90].map(|failures| back_off(failures, LONGEST_RETRY).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 16, 20, 20, 20, 20]);
    }

    #[test]
    fn a_limit_of_inotify_is_named_by_its_sysctl() {
        let said = |errno: rustix::io::Errno| match Watch::default().failed(Path::new("/m"), &errno.into()) {
            Step::Failed(why) => why,
            _ => String::new(),
        };
        // The pause is a timer.
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            assert!(said(rustix::io::Errno::NOSPC).contains("fs.inotify.max_user_watches"));
            assert!(said(rustix::io::Errno::MFILE).contains("fs.inotify.max_user_instances"));
            assert!(!said(rustix::io::Errno::ACCESS).contains("sysctl"));
        });
    }
}
