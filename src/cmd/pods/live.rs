//! `pods --watch`: prints each update of the kubelet's sources of pods, and then how far the runtime has come with
//! it, until Ctrl-C.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::sources::{self, Api, Configured, Url};
use super::text;
use super::{Periods, PodsArgs, listed};
use crate::clock::Wall;
use crate::cmd::node::Node;
use crate::cmd::render::page::Page;
use crate::cmd::render::{json, yaml};
use crate::cmd::session::{ONE_SHOT_TIMEOUT, Session};
use crate::cmd::term::output::Output;
use crate::cmd::term::stop_signals::StopSignals;
use crate::cmd::term::streams;
use crate::cmd::{Error, Exit};
use crate::cri::{self, Client};
use crate::manifests::podconfig::{
    Op, PodConfig, PodFollower, PodProgress, PodSource, SourceMessage, Update, WantedPod, follow_api,
    follow_files,
};
use crate::manifests::{Kubelet, PodIdentity};
use crate::report::{PodRef, Seconds};
use crate::threads;

/// The maximum number of updates in the queue from the sources. The kubelet's own queues are not longer.
const QUEUE: usize = 16;
/// How often the runtime's lists are called while a change is expected.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The factor by which the interval grows after [`FAST_PERIOD`]: from then on it is one second, as in the kubelet.
const SLOW_FACTOR: u32 = 4;
/// How long the short interval is used after the newest change.
const FAST_PERIOD: Duration = Duration::from_secs(15);

/// An update of the kubelet's sources of pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodUpdate")]
pub struct PodUpdate {
    /// When the update was read.
    pub(super) time: Wall,
    /// The kubelet's name of the operation.
    pub(super) op: Op,
    /// The source.
    pub(super) source: PodSource,
    /// Whether every source has been read. Until then, the kubelet removes no unwanted pods.
    pub(super) ready: bool,
    /// The pods of the update.
    pub(super) pods: Vec<PodRef>,
}

/// The progress of a pod in the runtime after an update.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodFollow")]
pub struct PodFollow {
    /// When the runtime listed the pod in this state.
    time: Wall,
    /// The pod.
    pod: PodRef,
    /// The state.
    state: &'static str,
    /// The time since the update.
    after_seconds: Seconds,
}

/// An error of a source of pods.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase", rename = "PodSourceError")]
pub struct PodSourceError<'a> {
    /// When the error occurred.
    time: Wall,
    /// The source.
    source: PodSource,
    /// The error.
    error: &'a str,
}

/// Prints updates until Ctrl-C or SIGTERM.
pub async fn run(
    arguments: &PodsArgs,
    node: &Rc<Node>,
    kubelet: &Kubelet,
    configured: Configured,
) -> Result<Exit, Error> {
    let mut stop_signals = StopSignals::listen(None).map_err(Error::Start)?;
    let mut client = if arguments.no_cri { None } else { Some(connect(node)?) };
    let mut config = PodConfig::new(configured.names());
    let (sender, mut messages) = mpsc::channel(QUEUE);
    let printer = Printer { arguments, node };
    for (source, why) in &configured.unread {
        printer.source_error(*source, why)?;
    }
    start(configured, arguments.periods(node), &sender);
    drop(sender);
    node.remark(&format!("following the sources of {}; Ctrl-C ends it", kubelet.node_name));
    let mut following = PodFollower::default();
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tick_number = 0u32;
    // Whether a source may still send updates.
    let mut sources_open = true;
    let mut last_list_error = None;
    loop {
        let waiting = client.is_some() && following.is_following();
        if !sources_open && !waiting {
            return Ok(Exit::Good);
        }
        tokio::select! {
            biased;
            () = stop_signals.next() => return Ok(Exit::Good),
            news = messages.recv(), if sources_open => match news {
                Some(SourceMessage::Set(source, pods)) => {
                    let updates = config.set(source, pods);
                    for update in updates.iter().filter_map(|update| printer.shown(update)) {
                        printer.update(&update)?;
                        following.follow(&update, node.clock.mono());
                    }
                }
                Some(SourceMessage::Error(source, why)) => printer.source_error(source, &why)?,
                None => sources_open = false,
            },
            _ = ticks.tick(), if waiting => {
                tick_number = tick_number.wrapping_add(1);
                let is_slow = following.youngest(node.clock.mono()).is_some_and(|age| age > FAST_PERIOD);
                if is_slow && !tick_number.is_multiple_of(SLOW_FACTOR) {
                    continue;
                }
                let Some(connected) = &client else { continue };
                // A list that hangs ends at its deadline; until then updates wait in their queue.
                let pods = tokio::select! {
                    () = stop_signals.next() => return Ok(Exit::Good),
                    pods = listed(connected) => pods,
                };
                match pods {
                    Ok(pods) => {
                        last_list_error = None;
                        for step in following.observe(&pods, node.clock.mono()) {
                            printer.step(&step)?;
                        }
                    }
                    // After one silent call the runtime is not called again: each pending call may occupy
                    // resources in the runtime.
                    Err(Error::Runtime(cri::Error::Silent { rpc, .. })) => {
                        client = None;
                        node.remark(&format!(
                            "{rpc} is not answered: plegctl stops calling the runtime; run `plegctl health` \
                             to find out why"
                        ));
                    }
                    // The same error four times a second would hide the updates.
                    Err(why) => {
                        let why = why.to_string();
                        if last_list_error.as_ref() != Some(&why) {
                            node.remark(&format!("the runtime's pods are not known: {why}"));
                            last_list_error = Some(why);
                        }
                    }
                }
            }
        }
    }
}

fn connect(node: &Rc<Node>) -> Result<Client, Error> {
    Ok(Session::of_node(node)?.client(ONE_SHOT_TIMEOUT))
}

/// Starts to follow each source; the updates arrive at the receiver of `sender`.
fn start(configured: Configured, periods: Periods, sender: &mpsc::Sender<SourceMessage>) {
    if let Some(source) = configured.file {
        tokio::spawn(follow_files(source, periods.file, sender.clone()));
    }
    if let Some(url) = configured.url {
        tokio::spawn(follow_url(url, periods.http, sender.clone()));
    }
    match configured.api {
        Some(Api::Server(server)) => _ = tokio::spawn(follow_api(*server, sender.clone())),
        Some(Api::Document(document)) => {
            let sender_of_lists = sender.clone();
            // Standard input may be silent for hours.
            let reading = threads::spawn("document", move || {
                sources::each_pod_list(&document, &mut |pods| {
                    sender_of_lists.blocking_send(api_message(pods)).is_ok()
                });
            });
            if let Err(why) = reading {
                // The queue is still empty, so the message fits.
                let _ = sender.try_send(SourceMessage::Error(PodSource::Api, why.to_string()));
            }
        }
        // A simulated list does not change.
        Some(Api::Simulated(list)) => {
            // The queue is still empty, so the message fits.
            let _ = sender.try_send(api_message(sources::simulated_pods(&list)));
        }
        None => {}
    }
}

/// Returns the message about what the API server's pods are now, or why that is not known.
fn api_message(pods: Result<Vec<Arc<WantedPod>>, String>) -> SourceMessage {
    match pods {
        Ok(pods) => SourceMessage::Set(PodSource::Api, pods),
        Err(why) => SourceMessage::Error(PodSource::Api, why),
    }
}

async fn follow_url(mut url: Url, every: Duration, sender: mpsc::Sender<SourceMessage>) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = sources::fetch_url(&mut url).await;
        let set = answer.set.map(|set| SourceMessage::Set(PodSource::Http, set));
        let source_error = answer.error.map(|why| SourceMessage::Error(PodSource::Http, why));
        for message in set.into_iter().chain(source_error) {
            if sender.send(message).await.is_err() {
                return;
            }
        }
    }
}

fn pod_ref(uid: &str, identity: &PodIdentity) -> PodRef {
    let PodIdentity { namespace, name } = identity.clone();
    PodRef { uid: uid.to_owned(), namespace, name }
}

/// Prints updates and progress, as text or as JSON or YAML documents.
struct Printer<'a> {
    arguments: &'a PodsArgs,
    node: &'a Node,
}

impl Printer<'_> {
    /// Returns the update with only the selected pods; `None` if there are none.
    fn shown(&self, update: &Update) -> Option<Update> {
        let pods: Vec<_> =
            update.pods.iter().filter(|pod| self.arguments.shows_wanted(pod)).cloned().collect();
        (!pods.is_empty() || update.pods.is_empty()).then_some(Update { pods, ..*update })
    }

    /// Prints one of several documents, or text.
    fn print(
        &self,
        document: &impl Serialize,
        text: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.arguments.output {
            Output::Yaml => streams::document(|out| {
                out.write_all(b"---\n")?;
                yaml::write(document, out)
            }),
            Output::Json | Output::Jsonl => streams::document(|out| json::line(document, out)),
            _ => streams::text(self.node.global.style(), text),
        }
    }

    fn update(&self, update: &Update) -> io::Result<()> {
        let pods = update.pods.iter();
        let pods = pods.map(|pod| pod_ref(pod.known_uid().unwrap_or_default(), &pod.identity)).collect();
        let time = self.node.clock.wall();
        let Update { op, source, ready, .. } = *update;
        let update = PodUpdate { time, op, source, ready, pods };
        self.print(&update, |out| text::update(&update, out))
    }

    fn step(&self, step: &PodProgress) -> io::Result<()> {
        let time = self.node.clock.wall();
        let pod = pod_ref(&step.uid, &step.identity);
        let line = PodFollow { time, pod, state: step.stage.as_str(), after_seconds: step.after.into() };
        self.print(&line, |out| text::step(time, step, out))
    }

    fn source_error(&self, source: PodSource, why: &str) -> io::Result<()> {
        let time = self.node.clock.wall();
        self.print(&PodSourceError { time, source, error: why }, |_| {
            self.node.remark(&format!("source {source}: {why}"));
            Ok(())
        })
    }
}
