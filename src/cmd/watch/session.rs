//! One watch from `WatchStarted` to `WatchSummary`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::reporter::Reporter;
use super::{TIMEOUT, WatchArgs, metrics};
use crate::clock::Mono;
use crate::cmd::context::{Context, ONE_SHOT_TIMEOUT, runtime_ref};
use crate::cmd::render::watch as text;
use crate::cmd::stops::Stops;
use crate::cmd::{Error, Exit};
use crate::cri::{Client, Endpoint, Runtime};
use crate::pleg::generic::PERIOD;
use crate::pleg::health::THRESHOLD;
use crate::pleg::stream::{Health, Record, WatchStarted};
use crate::pleg::{Generic, Hub, KubeletVersion, Settings};

/// How often health and the live line are looked after while nothing else happens.
const TICK: Duration = Duration::from_millis(500);

/// The same while somebody waits for a call to be slow.
const ATTENTIVE_TICK: Duration = Duration::from_millis(50);

/// A running watch.
pub struct Session<'a> {
    arguments: &'a WatchArgs,
    context: &'a Context,
    client: Client,
    reporter: Reporter,
    hub: Arc<Hub>,
    generic: Generic,
    stops: Stops,
    started: Mono,
    threshold: Duration,
    healthy: Option<bool>,
}

/// Why a watch is over.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// It was told to: a signal, `--count`, `--for`.
    Told,
    /// What `--until-…` waits for has come; in words.
    Came(String),
    /// Nobody reads what it writes.
    Unread,
}

impl<'a> Session<'a> {
    /// Meets the runtime and says what is going to happen.
    pub async fn open(
        arguments: &'a WatchArgs,
        context: &'a Context,
        endpoint: &Endpoint,
    ) -> Result<Self, Error> {
        let client = context.client(endpoint, TIMEOUT)?;
        let greeting = context.timeout.unwrap_or(ONE_SHOT_TIMEOUT).min(ONE_SHOT_TIMEOUT);
        let version = client.clone().with_deadline(greeting).version().await.result?;

        let kubelet = arguments.kubelet_version.unwrap_or(KubeletVersion::NEWEST);
        if let Some(note) = kubelet.note() {
            context.remark(&note);
        }
        if arguments.no_inspect {
            context.remark("status calls are left out (--no-inspect): a hung one will not be seen");
        }
        let hub = Arc::new(Hub::new(false));
        if let Some(address) = arguments.metrics_listen {
            let bound = metrics::serve(address, Arc::clone(&hub)).await;
            bound.map_err(|source| Error::Listen { address, source })?;
        }
        let settings = Settings { era: kubelet.era(), evented_gate: false, inspect: !arguments.no_inspect };
        let session = Self {
            arguments,
            context,
            client,
            reporter: Reporter::open(arguments.output, arguments.log.as_deref(), arguments.initial)?,
            generic: Generic::new(Arc::clone(&hub), settings),
            hub,
            stops: Stops::listen(arguments.lasting).map_err(Error::Start)?,
            started: context.clock.mono(),
            threshold: arguments.threshold.unwrap_or(THRESHOLD),
            healthy: None,
        };
        session.reporter.started(WatchStarted {
            time: context.clock.wall(),
            node: context.node_name(),
            runtime: runtime_ref(endpoint, version),
            mode: "generic".to_owned(),
            period_seconds: session.period().into(),
            threshold_seconds: session.threshold.into(),
            kubelet_version: kubelet.to_string(),
            kubelet_version_source: Some(match arguments.kubelet_version {
                Some(_) => "--kubelet-version".to_owned(),
                None => "the newest known".to_owned(),
            }),
        });
        Ok(session)
    }

    fn period(&self) -> Duration {
        self.arguments.period.unwrap_or(PERIOD)
    }

    /// Relists until something ends it.
    pub async fn run(mut self) -> Result<Exit, Error> {
        let end = loop {
            if let Some(end) = self.relist().await {
                break end;
            }
            if self.arguments.count.is_some_and(|count| self.generic.relists() >= count.get()) {
                break End::Told;
            }
            if let Some(end) = self.pause().await {
                break end;
            }
        };
        self.finish(&end)
    }

    /// One relist; `Some` if the watch is over.
    async fn relist(&mut self) -> Option<End> {
        let Self { generic, client, context, reporter, stops, hub, healthy, arguments, .. } = self;
        let clock = &*context.clock;
        let started = clock.mono();
        let mut look = Look { arguments, context, reporter, hub, healthy, threshold: self.threshold };
        let mut sink = &*reporter;
        let mut relist = pin!(generic.relist(client, clock, &mut sink));
        let report = loop {
            tokio::select! {
                biased;
                () = stops.next() => return Some(End::Told),
                () = reporter.broken() => return Some(End::Unread),
                report = &mut relist => break report,
                () = tokio::time::sleep(look.tick()) => {
                    if let Some(end) = look.around(Some(started)) {
                        return Some(end);
                    }
                }
            }
        };
        let slow = arguments.until_slow.and_then(|limit| text::slow_relist(&report, limit));
        reporter.relist(report);
        look.around(None).or(slow.map(End::Came))
    }

    /// The pause between two relists, from the end of the one to the start of the next.
    async fn pause(&mut self) -> Option<End> {
        let period = self.period();
        let Self { context, reporter, stops, hub, healthy, arguments, .. } = self;
        let mut look = Look { arguments, context, reporter, hub, healthy, threshold: self.threshold };
        let mut rest = pin!(async {
            tokio::time::sleep(period).await;
            reporter.settle().await;
        });
        loop {
            tokio::select! {
                biased;
                () = stops.next() => return Some(End::Told),
                () = reporter.broken() => return Some(End::Unread),
                () = &mut rest => return None,
                () = tokio::time::sleep(look.tick()) => {
                    if let Some(end) = look.around(None) {
                        return Some(end);
                    }
                }
            }
        }
    }

    fn finish(self, end: &End) -> Result<Exit, Error> {
        let clock = &self.context.clock;
        let (summary, ranges) = {
            let mut tally = self.reporter.tally();
            let ranges = tally.relists.ranges();
            (tally.summary(clock.wall(), clock.mono()), ranges)
        };
        let lasted = clock.mono().since(self.started);
        if let End::Came(what) = end {
            self.reporter.lines([what.clone()]);
        }
        self.reporter.lines(text::summary(&summary, lasted, &ranges));
        self.reporter.json(&Record::WatchSummary(summary));
        self.reporter.close(self.arguments.log.as_deref())?;
        Ok(match end {
            End::Came(_) => Exit::Bad,
            End::Told | End::Unread => Exit::Good,
        })
    }
}

/// What is looked at again and again while waiting.
struct Look<'a> {
    arguments: &'a WatchArgs,
    context: &'a Context,
    reporter: &'a Reporter,
    hub: &'a Hub,
    healthy: &'a mut Option<bool>,
    threshold: Duration,
}

impl Look<'_> {
    fn tick(&self) -> Duration {
        if self.arguments.until_slow.is_some() { ATTENTIVE_TICK } else { TICK }
    }

    /// Health, slowness, live line. `relist` is when the current relist began.
    fn around(&mut self, relist: Option<Mono>) -> Option<End> {
        let clock = &*self.context.clock;
        let verdict = self.hub.check(clock, self.threshold);
        let healthy = verdict.is_ok();
        let message = verdict.err().map(|why| why.to_string()).unwrap_or_default();
        // The kubelet calls itself unhealthy from the start; while the very first relist is under way that says nothing.
        let undecided =
            self.healthy.is_none() && relist.is_some_and(|since| clock.mono().since(since) <= self.threshold);
        if !undecided && self.healthy.replace(healthy) != Some(healthy) {
            self.reporter.health(Health { time: clock.wall(), healthy, message: message.clone() });
        }
        if self.reporter.is_live() {
            self.reporter.status(self.status_line(healthy));
        }
        if !healthy && !undecided && self.arguments.until_unhealthy {
            return Some(End::Came(format!("PLEG is not healthy: {message}")));
        }
        let limit = self.arguments.until_slow?;
        let tally = self.reporter.tally();
        let waited = clock.mono().since(relist?);
        let call = tally.waiting(clock.mono()).unwrap_or_default();
        (waited.max(call) > limit).then(|| End::Came(text::still_waiting(tally.open.as_ref(), call, waited)))
    }

    fn status_line(&self, healthy: bool) -> String {
        let tally = self.reporter.tally();
        let waiting = tally
            .waiting(self.context.clock.mono())
            .filter(|waited| *waited >= TICK)
            .zip(tally.open.as_ref());
        let waiting = waiting.map(|(waited, open)| text::waiting(open, waited));
        text::status(
            tally.finished,
            tally.relists.last(),
            tally.relists.quantiles().as_ref(),
            tally.pods,
            healthy,
            waiting.as_deref(),
        )
    }
}
