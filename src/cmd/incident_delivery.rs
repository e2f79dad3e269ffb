//! Sends something about an incident several times if necessary, and counts the outcomes in a metric: the Events of
//! `record --events` and the captures of `record --on-incident-put`. plegctl sends nothing else with a method other than GET.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::streams;

/// Counts the outcomes.
#[derive(Debug, Default)]
pub struct DeliveryCounts {
    done: AtomicU64,
    failed: AtomicU64,
    limited: AtomicU64,
}

impl DeliveryCounts {
    /// Counts an outcome. Prints a failure to stderr, after the words that say what failed.
    pub fn add(&self, what: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.done.fetch_add(1, Ordering::Relaxed),
            Err(why) => {
                streams::remark(format_args!("{what}: {why}"));
                self.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    /// Counts something that was not sent because of the limit.
    pub fn add_limited(&self) {
        self.limited.fetch_add(1, Ordering::Relaxed);
    }

    /// Renders the metric `name`.
    pub fn metrics(&self, name: &str, help: &str) -> String {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        format!(
            "# HELP {name} {help}\n# TYPE {name} counter\n{name}{{outcome=\"done\"}} {}\n\
             {name}{{outcome=\"failed\"}} {}\n{name}{{outcome=\"limited\"}} {}\n",
            count(&self.done),
            count(&self.failed),
            count(&self.limited)
        )
    }
}

/// Sends until an attempt succeeds, with these pauses between the attempts. Returns the failure of the last one.
pub async fn deliver<S>(pauses: &[Duration], mut send: impl FnMut() -> S) -> Result<(), String>
where
    S: Future<Output = Result<(), String>>,
{
    for pause in pauses {
        if send().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(*pause).await;
    }
    send().await
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

    /// Sends with a number of failed attempts. Returns the outcome, the number of attempts and the seconds that passed.
    fn outcome(failures: u64) -> (Result<(), String>, u64, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let (began, mut attempts) = (tokio::time::Instant::now(), 0);
            let sent = deliver(&PAUSES, || {
                attempts += 1;
                ready(if attempts > failures { Ok(()) } else { Err(format!("failure {attempts}")) })
            });
            let sent = sent.await;
            (sent, attempts, began.elapsed().as_secs())
        })
    }

    #[test]
    fn sending_is_tried_again_after_each_pause_and_ends_with_the_last_failure() {
        assert_eq!(outcome(0), (Ok(()), 1, 0));
        assert_eq!(outcome(1), (Ok(()), 2, 2));
        assert_eq!(outcome(2), (Ok(()), 3, 12));
        assert_eq!(outcome(3), (Err("failure 3".to_owned()), 3, 12));
    }

    #[test]
    fn metric_has_a_count_of_each_outcome() {
        let counts = DeliveryCounts::default();
        counts.add("x", Ok(()));
        counts.add("x", Ok(()));
        counts.add("x", Err("y".to_owned()));
        counts.add_limited();
        let metrics = counts.metrics("m", "Help.");
        assert!(metrics.starts_with("# HELP m Help.\n# TYPE m counter\n"), "{metrics}");
        for line in ["m{outcome=\"done\"} 2\n", "m{outcome=\"failed\"} 1\n", "m{outcome=\"limited\"} 1\n"] {
            assert!(metrics.contains(line), "{metrics}");
        }
    }
}
