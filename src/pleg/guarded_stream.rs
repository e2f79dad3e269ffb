//! Opens, guards and closes the runtime's event stream for `watch`, and passes the events to the evented
//! PLEG. A second small process, the guard, closes the stream if plegctl stops reading it, because an unread stream can
//! block the runtime ([`crate::cri::stream_guard`]).
//!
//! This is the only file of `pleg` that opens a connection and waits, because the attempts to open a stream again depend on
//! time.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Sleep;

use super::evented::{MAX_STREAM_FAILURES, NextStreamAction};
use super::readers::reason_of_empty_stream;
use super::stream::Stream;
use super::{EventedPleg, SharedState, Sink};
use crate::clock::{Clock, Mono};
use crate::cri::stream_guard::{GuardAlarm, StreamGuard};
use crate::cri::{self, Client, ConnectionCloser, ContainerEventType, EventStream, ReceivedEvent};
use crate::report::duration::took;
use crate::report::plural;

/// The lifetime below which a guard process counts as failed.
const MIN_GUARD_LIFETIME: Duration = Duration::from_secs(1);

/// The number of failed guards in a row after which opening the stream fails.
const MAX_FAILED_GUARDS: u32 = 3;

/// The pause before the first attempt that the kubelet would not make. It doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The lifetime below which a stream counts as ended at once.
const SHORT_STREAM: Duration = Duration::from_secs(10);

/// The message for the end of a stream whose events are only hints.
const HINT_STREAM_ENDED: &str = "a kubelet from 1.37 on does not open an ended stream again until the kubelet is restarted (according to its code)";

/// The maximum number of pods that wait for a relist of a single pod, the same as in the kubelet.
const MAX_HINTED_PODS: usize = 200;

/// The options for the stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// The number of ended streams after which the stream is given up.
    pub retries: u32,
    /// The age at which the stream is closed and opened again.
    pub max_age: Duration,
    /// Whether a guard process watches the stream. A runtime inside this process needs no guard, because it stops with the
    /// process.
    pub guarded: bool,
    /// Whether an event is only a hint, which triggers a relist of its pod, as from kubelet 1.37 on.
    pub hint: bool,
}

/// Receives the events and the changes of the stream.
pub trait StreamObserver {
    /// The stream was opened, closed or given up.
    fn stream(&self, notice: Stream);
    /// An event arrived. The lifecycle events that the evented PLEG derives from it go to [`Self::sink`] afterwards.
    fn event_received(&self, _event: &ReceivedEvent) {}
    /// This number of events was received but dropped.
    fn dropped(&self, _events: u64, _notice: Stream) {}
    /// The stream has ended by itself, or could not be opened.
    fn stream_failed(&self) {}
    /// The engine's cache has too many pods, so a relist is required to remove pods that no longer exist.
    fn cache_too_large(&self) {}
    /// Returns the sink for the events of pods.
    fn sink(&self) -> Box<dyn Sink + '_>;
}

/// The event stream, and the evented PLEG that processes it.
pub struct GuardedStream {
    client: Client,
    runtime: cri::Version,
    clock: Arc<dyn Clock>,
    settings: StreamSettings,
    evented: EventedPleg,
    open: Option<OpenStream>,
    /// The number of streams that were opened.
    opened: u64,
    /// Whether a relist of all pods is required before the stream is opened again.
    needs_relist: bool,
    /// The number of guards in a row that ended at once.
    failed_guards: u32,
    /// The number of ended streams, and when the first one ended.
    ended: u32,
    first_end: Option<Mono>,
    /// The number of streams in a row that ended at once; after a longer stream no pause is needed.
    short_streams: u32,
    /// When the next stream may be opened.
    not_before: Mono,
    /// Whether there is a pause before the next stream. The relist after the last stream is then too old, so another relist
    /// is required after the pause.
    paused: bool,
    /// The UIDs of the pods that hints reported and that wait for their relist.
    hints: VecDeque<String>,
    /// Whether the next relist removes pods from the cache that no longer exist.
    cleanup_pending: bool,
}

/// An open stream.
struct OpenStream {
    events: EventStream,
    /// Closes the connection.
    closer: ConnectionCloser,
    guard: Option<StreamGuard>,
    time_limit: Pin<Box<Sleep>>,
    since: Mono,
    received: u64,
    dropped: u64,
}

/// An item of the stream.
pub enum StreamItem {
    /// An event.
    Event(Box<ReceivedEvent>),
    /// The end of the stream; `None` without an error.
    Ended(Option<cri::Error>),
    /// The stream has been open for `max_age`.
    TooLong,
}

impl StreamItem {
    fn of(next: Result<Option<ReceivedEvent>, cri::Error>) -> Self {
        match next {
            Ok(Some(event)) => Self::Event(Box::new(event)),
            Ok(None) => Self::Ended(None),
            Err(why) => Self::Ended(Some(why)),
        }
    }
}

impl GuardedStream {
    /// Creates an evented PLEG; [`Self::open_if_due`] opens its first stream.
    pub fn new(
        client: Client,
        runtime: cri::Version,
        clock: Arc<dyn Clock>,
        shared_state: Arc<SharedState>,
        settings: StreamSettings,
    ) -> Self {
        let evented = EventedPleg::start(shared_state).with_max_failures(settings.retries);
        let not_before = clock.mono();
        Self {
            client,
            runtime,
            clock,
            settings,
            evented,
            open: None,
            opened: 0,
            needs_relist: false,
            failed_guards: 0,
            ended: 0,
            first_end: None,
            short_streams: 0,
            not_before,
            paused: false,
            hints: VecDeque::new(),
            cleanup_pending: false,
        }
    }

    /// Whether an event is only a hint, which triggers a relist of its pod.
    pub const fn is_hint(&self) -> bool {
        self.settings.hint
    }

    /// Removes and returns the UID of the next pod that a hint reported.
    pub fn take_hint(&mut self) -> Option<String> {
        self.hints.pop_front()
    }

    /// Whether a relist of all pods is required before the stream is opened again.
    pub const fn needs_relist(&self) -> bool {
        self.needs_relist
    }

    /// Whether a relist is required, or it is time to open the stream.
    pub fn is_due(&self) -> bool {
        let opens = self.open.is_none() && self.evented.in_use();
        self.needs_relist || !self.hints.is_empty() || (opens && self.clock.mono() >= self.not_before)
    }

    /// Notes that a relist of all pods begins, which makes the wanted relists of single pods unnecessary.
    pub fn relist_begins(&mut self) {
        self.needs_relist = false;
        self.hints.clear();
    }

    /// Removes pods from the cache that the last relist did not list. `pods` is the number of listed pods.
    pub fn remove_unlisted(&mut self, pods: usize, listed: impl Fn(&str) -> bool) {
        self.cleanup_pending = false;
        self.evented.remove_unlisted(pods, listed);
    }

    /// Opens the stream if it is due. Returns whether the stream was given up just now.
    pub async fn open_if_due(&mut self, observer: &dyn StreamObserver) -> io::Result<bool> {
        if self.paused && self.clock.mono() >= self.not_before {
            (self.paused, self.needs_relist) = (false, true);
        }
        while self.open.is_none() && !self.needs_relist && self.clock.mono() >= self.not_before {
            match self.evented.next(&*self.clock) {
                NextStreamAction::Connect(_) => match self.open().await? {
                    Ok(open) => {
                        self.open = Some(open);
                        self.opened += 1;
                        observer.stream(self.evented.on_stream_opened(&*self.clock));
                    }
                    Err(why) => self.stream_ended(Some(&why), observer),
                },
                NextStreamAction::FallBack(mut notice) => {
                    let lasted = self.first_end.map(|first| self.clock.mono().since(first));
                    notice.error = if self.settings.hint {
                        Some(HINT_STREAM_ENDED.to_owned())
                    } else {
                        explain_quick_ends(self.ended, lasted)
                    };
                    observer.stream(notice);
                    return Ok(true);
                }
                NextStreamAction::GivenUp => break,
            }
        }
        Ok(false)
    }

    /// Opens a stream. The outer error is an error of this process, the inner error is an error of the runtime.
    async fn open(&self) -> io::Result<Result<OpenStream, cri::Error>> {
        let since = self.clock.mono();
        let connection = match self.client.connect_for_events().await {
            Ok(connection) => connection,
            Err(why) => return Ok(Err(why)),
        };
        if self.failed_guards >= MAX_FAILED_GUARDS {
            return Err(io::Error::other("the guard process ends right after its start"));
        }
        let ((events, closer), guard) = if self.settings.guarded {
            let (guard, pings) = StreamGuard::start(connection.share()?)?;
            (connection.subscribe(Some(Box::pin(pings.answer())))?, Some(guard))
        } else {
            (connection.subscribe(None)?, None)
        };
        let time_limit = Box::pin(tokio::time::sleep(self.settings.max_age));
        Ok(Ok(OpenStream { events, closer, guard, time_limit, since, received: 0, dropped: 0 }))
    }

    /// Returns the next item. Reads an event only after `may_read` is ready. Without an open stream, never returns.
    pub async fn next_item(&mut self, may_read: impl Future<Output = ()>) -> StreamItem {
        let Some(OpenStream { events, time_limit, .. }) = &mut self.open else {
            return std::future::pending().await;
        };
        let next = async {
            may_read.await;
            events.next().await
        };
        tokio::select! {
            biased;
            () = time_limit.as_mut() => StreamItem::TooLong,
            next = next => StreamItem::of(next),
        }
    }

    /// Handles one item.
    pub fn handle(&mut self, item: StreamItem, observer: &dyn StreamObserver) {
        match item {
            StreamItem::Event(event) => self.handle_event(&event, observer),
            StreamItem::Ended(why) => match self.alarm() {
                Some(alarm) => {
                    if alarm == GuardAlarm::GuardGone {
                        self.count_failed_guard();
                    }
                    self.release(alarm.as_str(), observer);
                }
                None => self.stream_ended(why.as_ref(), observer),
            },
            StreamItem::TooLong => {
                self.release("closed by plegctl after --max-stream, to be opened again", observer);
            }
        }
    }

    /// Passes an event to the evented PLEG, or notes it as a hint.
    fn handle_event(&mut self, event: &ReceivedEvent, observer: &dyn StreamObserver) {
        if let Some(open) = &mut self.open {
            open.received += 1;
        }
        observer.event_received(event);
        if self.settings.hint {
            let stopped = event.event.kind == ContainerEventType::Stopped;
            let pod = event.event.sandbox.as_ref().and_then(|sandbox| sandbox.metadata.as_ref());
            let room = self.hints.len() < MAX_HINTED_PODS;
            let uid = pod.map(|pod| &pod.uid).filter(|uid| stopped && !self.hints.contains(uid));
            // The next relist of all pods finds the changes of a pod that does not fit.
            self.hints.extend(uid.filter(|_| room).cloned());
            return;
        }
        let crash = self.evented.on_event(event, &*self.clock, &mut *observer.sink());
        if let Some(notice) = crash {
            observer.stream(notice);
        }
        if !self.cleanup_pending && self.evented.is_cache_too_large() {
            // One request is enough until that relist, however many events arrive before it.
            (self.needs_relist, self.cleanup_pending) = (true, true);
            observer.cache_too_large();
        }
    }

    /// Handles the end of a stream, or a failed attempt to open it.
    fn stream_ended(&mut self, why: Option<&cri::Error>, observer: &dyn StreamObserver) {
        let without_event = self.open.as_ref().is_some_and(|open| open.received == 0);
        let mut notice = self.evented.on_stream_failed(why, &*self.clock);
        if why.is_none()
            && without_event
            && let Some(meaning) = reason_of_empty_stream(&self.runtime)
        {
            notice.error = Some(meaning.to_owned());
        }
        observer.stream_failed();
        let now = self.clock.mono();
        self.ended += 1;
        self.first_end.get_or_insert(now);
        let lasted = self.open.as_ref().map_or(Duration::ZERO, |open| now.since(open.since));
        self.short_streams = if lasted < SHORT_STREAM { self.short_streams + 1 } else { 1 };
        // If the stream is given up now, no pause is needed.
        let may_retry = self.ended < self.settings.retries;
        self.pause(if may_retry { pause_after(self.short_streams) } else { Duration::ZERO });
        self.close(notice, observer);
    }

    /// Prevents a new stream for the duration of the pause.
    fn pause(&mut self, pause: Duration) {
        self.not_before = self.clock.mono().plus(pause);
        self.paused = !pause.is_zero();
    }

    /// Postpones the next attempt, because this process could not get the resources for a stream.
    pub fn postpone(&mut self, why: &str, observer: &dyn StreamObserver) {
        self.failed_guards = 0;
        self.pause(MAX_PAUSE);
        observer.stream(self.evented.on_stream_released(why, &*self.clock));
    }

    /// Whether a stream was open before.
    pub const fn was_open(&self) -> bool {
        self.opened > 0
    }

    /// Closes the stream on purpose. This is no failure, but events are lost until the next stream, so a relist must follow.
    pub fn release(&mut self, why: &str, observer: &dyn StreamObserver) {
        if self.open.is_some() {
            let notice = self.evented.on_stream_released(why, &*self.clock);
            self.close(notice, observer);
        }
    }

    /// Closes the stream and reports the end to the observer.
    fn close(&mut self, notice: Stream, observer: &dyn StreamObserver) {
        // Events that were received but not processed are lost with the stream.
        let waiting = self.open.as_ref().map_or(0, |open| open.events.waiting());
        self.report_dropped(waiting, observer);
        if let Some(OpenStream { events, closer, guard, .. }) = self.open.take() {
            // The receiver is dropped first, so that the reading thread does not report the end of the connection as an end
            // by the runtime.
            drop(events);
            drop(closer);
            drop(guard);
        }
        // If events are only hints, a relist of all pods follows within a second anyway.
        self.needs_relist = !self.settings.hint;
        observer.stream(notice);
    }

    /// Returns the alarm of the guard process, if there is one.
    fn alarm(&mut self) -> Option<GuardAlarm> {
        self.open.as_mut()?.guard.as_mut()?.alarm()
    }

    /// Counts the guards in a row that ended right after their start.
    fn count_failed_guard(&mut self) {
        let now = self.clock.mono();
        let lived = self.open.as_ref().map_or(Duration::ZERO, |open| now.since(open.since));
        self.failed_guards = if lived < MIN_GUARD_LIFETIME { self.failed_guards + 1 } else { 0 };
    }

    /// Reports dropped events.
    pub fn check(&mut self, observer: &dyn StreamObserver) {
        self.report_dropped(0, observer);
    }

    /// Reports the events that were dropped since the last report, and `given_up` further events.
    fn report_dropped(&mut self, given_up: u64, observer: &dyn StreamObserver) {
        let dropped = self.open.as_ref().map_or(0, |open| open.events.dropped()) + given_up;
        let Some(open) = self.open.as_mut().filter(|open| open.dropped < dropped) else { return };
        let fresh = dropped - open.dropped;
        open.dropped = dropped;
        let text = format!(
            "plegctl dropped {} (queue full): events arrive faster than plegctl processes them and its output is read",
            plural(fresh, "event")
        );
        observer.dropped(fresh, self.evented.on_events_dropped(text, &*self.clock));
    }
}

/// Explains a stream that was given up within seconds; `None` if it lasted longer.
fn explain_quick_ends(ended: u32, lasted: Option<Duration>) -> Option<String> {
    lasted.filter(|lasted| *lasted < SHORT_STREAM && ended > 1).map(|lasted| {
        format!(
            "all of them within {}. The kubelet does not wait between two attempts either: one restart of \
             the runtime ends its EventedPLEG permanently",
            took(lasted)
        )
    })
}

/// Returns the pause after this number of ended streams. The kubelet does not pause, and gives up after five. If a user allows
/// more attempts, pauses protect a runtime that is restarting.
fn pause_after(ended: u32) -> Duration {
    match ended.checked_sub(MAX_STREAM_FAILURES) {
        None => Duration::ZERO,
        Some(beyond) => FIRST_PAUSE.saturating_mul(1 << beyond.min(5)).min(MAX_PAUSE),
    }
}

impl GuardAlarm {
    const fn as_str(self) -> &'static str {
        match self {
            Self::ReaderStopped => "closed by the guard because plegctl had stopped",
            Self::GuardGone => "closed by plegctl because its guard process is gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::cri::server::{Answer, CallRequest, InProcess, Service, ServiceError};

    #[test]
    fn first_attempts_need_no_pause_and_the_pauses_of_further_ones_grow() {
        let pauses: Vec<u64> = (1..=12).map(|ended| pause_after(ended).as_secs()).collect();
        assert_eq!(pauses, [0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause_after(u32::MAX), MAX_PAUSE);
    }

    #[test]
    fn five_ends_within_moments_are_explained_by_the_kubelets_behaviour() {
        let text = explain_quick_ends(5, Some(Duration::from_millis(8))).unwrap();
        assert!(text.contains("within 8") && text.contains("kubelet does not wait"), "{text}");
        assert_eq!(explain_quick_ends(5, Some(SHORT_STREAM)), None, "five ends in an hour are not explained");
        assert_eq!(explain_quick_ends(1, Some(Duration::ZERO)), None);
        assert_eq!(explain_quick_ends(5, None), None);
    }

    /// An observer that ignores everything.
    struct NoObserver;

    impl StreamObserver for NoObserver {
        fn stream(&self, _notice: Stream) {}
        fn sink(&self) -> Box<dyn Sink + '_> {
            Box::<Vec<super::super::stream::Event>>::default()
        }
    }

    /// A runtime whose event stream stays open and has no events.
    struct QuietRuntime;

    impl Service for QuietRuntime {
        async fn answer(self: Arc<Self>, _: CallRequest) -> Result<Answer, ServiceError> {
            Ok(Answer::stream(tokio_stream::pending()))
        }
    }

    fn guarded_stream(clock: &Arc<ManualClock>) -> (InProcess, GuardedStream) {
        let shared: Arc<dyn Clock> = Arc::clone(clock) as _;
        let runtime = InProcess::start("test:quiet", Arc::new(QuietRuntime)).unwrap();
        let client = runtime.client(Duration::from_secs(10), Arc::clone(&shared));
        let settings = StreamSettings {
            retries: u32::MAX,
            max_age: Duration::from_secs(600),
            guarded: false,
            hint: true,
        };
        let guarded_stream = GuardedStream::new(
            client,
            cri::Version::default(),
            shared,
            Arc::new(SharedState::new(true)),
            settings,
        );
        (runtime, guarded_stream)
    }

    #[tokio::test]
    async fn pauses_do_not_grow_if_restarts_of_the_runtime_are_far_apart() {
        let clock = Arc::new(ManualClock::default());
        let (_runtime, mut guarded_stream) = guarded_stream(&clock);
        for restart in 0..20 {
            guarded_stream.open_if_due(&NoObserver).await.unwrap();
            assert!(guarded_stream.open.is_some(), "restart {restart}");
            clock.advance(SHORT_STREAM);
            let gone = cri::Error::Refused { endpoint: "unix:///x".into() };
            guarded_stream.handle(StreamItem::Ended(Some(gone)), &NoObserver);
            assert!(guarded_stream.open.is_none());
        }
        // Streams that end at once are followed by a pause.
        for _ in 0..MAX_STREAM_FAILURES {
            guarded_stream.open_if_due(&NoObserver).await.unwrap();
            guarded_stream.handle(StreamItem::Ended(None), &NoObserver);
        }
        guarded_stream.open_if_due(&NoObserver).await.unwrap();
        assert!(guarded_stream.open.is_none());
    }

    #[tokio::test]
    async fn stream_that_cannot_be_opened_for_lack_of_threads_is_opened_later() {
        let clock = Arc::new(ManualClock::default());
        let (_runtime, mut guarded_stream) = guarded_stream(&clock);
        guarded_stream.failed_guards = MAX_FAILED_GUARDS;
        assert!(guarded_stream.open_if_due(&NoObserver).await.is_err());
        guarded_stream.postpone("no threads", &NoObserver);
        guarded_stream.open_if_due(&NoObserver).await.unwrap();
        assert!(guarded_stream.open.is_none(), "the pause is not over");
        clock.advance(MAX_PAUSE);
        guarded_stream.open_if_due(&NoObserver).await.unwrap();
        guarded_stream.relist_begins();
        guarded_stream.open_if_due(&NoObserver).await.unwrap();
        assert!(guarded_stream.open.is_some());
    }
}
