//! A fake container runtime that answers as the test sets it.
//!
//! ```ignore
//! let fake = FakeRuntime::start(Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "web"));
//! fake.on(Rpc::ContainerStatus).id("c1").hang();
//! // … run something against fake.socket() …
//! assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 1);
//! ```
//!
//! The fake runs in a thread with its own tokio runtime, so it works while a test blocks or pauses its clock.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plegctl_engine::cri::server::ServiceError;
use plegctl_engine::cri::{Code, Rpc};

use super::answer::{RequestTarget, RuntimeKind};
use super::events::{Attempt, Event, OpenStreams};
use super::log::{CallState, Log, ReceivedCall};
use super::node::Node;
use super::reply::{ConnectionFault, Gate, Reply, Rule};
use super::server::Server;
use super::socket::TempDir;

/// The fake runtime. Dropping it ends the server and removes the socket.
#[derive(Debug)]
pub struct FakeRuntime {
    server: Option<Server>,
    shared: Arc<Shared>,
    folder: TempDir,
}

/// The state that the server's thread and the test share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) script: Mutex<Script>,
    pub(super) log: Arc<Log>,
}

/// The answers that the fake gives.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) hub: OpenStreams,
    kind: RuntimeKind,
    steps: Vec<Step>,
    current: Option<usize>,
    rules: Vec<Rule>,
    attempts: VecDeque<Attempt>,
}

/// The node during one relist, and its faults.
#[derive(Debug)]
#[must_use]
pub struct Step {
    node: Arc<Node>,
    rules: Vec<Rule>,
}

impl Step {
    /// Gives every call of `rpc` in this relist this reply; with an id, only calls about that id.
    pub fn on(mut self, rpc: Rpc, id: Option<&str>, reply: Reply) -> Self {
        self.rules.push(Rule::always(rpc, id.map(str::to_owned), reply));
        self
    }
}

impl From<Node> for Step {
    fn from(node: Node) -> Self {
        Self { node: Arc::new(node), rules: Vec::new() }
    }
}

impl FakeRuntime {
    /// Starts a containerd 2.1.9 with this node.
    pub fn start(node: Node) -> Self {
        Self::start_as(RuntimeKind::Containerd21, node)
    }

    /// Starts another runtime with this node.
    pub fn start_as(kind: RuntimeKind, node: Node) -> Self {
        Self::start_steps(kind, [node])
    }

    /// Starts a runtime with one step for each relist: each unfiltered sandbox list begins the next step, and the last
    /// step stays.
    pub fn start_steps(kind: RuntimeKind, steps: impl IntoIterator<Item = impl Into<Step>>) -> Self {
        let steps: Vec<Step> = steps.into_iter().map(Into::into).collect();
        assert!(!steps.is_empty(), "a fake needs a node");
        let hub = OpenStreams::new(kind == RuntimeKind::Containerd17);
        let script = Script { hub, kind, steps, current: None, rules: Vec::new(), attempts: VecDeque::new() };
        let shared = Arc::new(Shared { script: Mutex::new(script), log: Arc::default() });
        let folder = TempDir::new();
        let server = Some(Server::start(&socket_in(&folder), Arc::clone(&shared)));
        Self { server, shared, folder }
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Returns the socket as an endpoint: `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Returns a directory for the test, next to the socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the node from now on and drops the remaining steps.
    pub fn set_node(&self, node: Node) {
        let mut script = self.script();
        script.steps = vec![node.into()];
        script.current = None;
    }

    /// Begins a rule for the calls of `rpc`; newer rules apply first.
    pub fn on(&self, rpc: Rpc) -> RuleBuilder<'_> {
        RuleBuilder { fake: self, rpc, id: None }
    }

    /// Removes all rules.
    pub fn remove_rules(&self) {
        self.script().rules.clear();
    }

    /// Sets the answers to the next subscriptions, one for each; the last one repeats.
    pub fn streams(&self, attempts: impl IntoIterator<Item = Attempt>) {
        self.script().attempts = attempts.into_iter().collect();
    }

    /// Sends an event to the open streams; without a stream, the event waits for the first one.
    pub fn push_event(&self, event: impl Into<Event>) {
        let event = event.into().encode();
        self.script().hub.push(&event);
    }

    /// Ends the open streams with OK.
    pub fn end_streams(&self) {
        self.script().hub.end(None);
    }

    /// Ends the open streams with a gRPC status.
    pub fn fail_streams(&self, code: Code, text: &str) {
        self.script().hub.end(Some(&ServiceError::new(code, text)));
    }

    /// Returns all calls so far, in order.
    pub fn calls(&self) -> Vec<ReceivedCall> {
        self.shared.log.calls()
    }

    /// Returns all calls of one RPC so far, in order.
    pub fn calls_of(&self, rpc: Rpc) -> Vec<ReceivedCall> {
        self.calls().into_iter().filter(|call| call.rpc == rpc).collect()
    }

    /// Returns the number of unfinished calls, including open streams.
    pub fn in_flight(&self) -> usize {
        let open = |call: &&ReceivedCall| matches!(call.state, CallState::InFlight | CallState::Streaming);
        self.calls().iter().filter(open).count()
    }

    /// Like [`Self::wait_until`], for a test whose own tokio runtime must continue. A paused clock does not advance
    /// meanwhile.
    pub async fn seen(&self, wanted: impl Fn(&[ReceivedCall]) -> bool + Send + 'static) -> Vec<ReceivedCall> {
        let log = Arc::clone(&self.shared.log);
        tokio::task::spawn_blocking(move || log.wait_until(wanted)).await.unwrap()
    }

    /// Blocks until the calls fulfil the condition, and returns them; the test fails after half a minute.
    pub fn wait_until(&self, wanted: impl Fn(&[ReceivedCall]) -> bool) -> Vec<ReceivedCall> {
        self.shared.log.wait_until(wanted)
    }

    /// Blocks until this number of calls of one RPC has arrived.
    pub fn wait_for(&self, rpc: Rpc, count: usize) -> Vec<ReceivedCall> {
        self.wait_until(|calls| calls.iter().filter(|call| call.rpc == rpc).count() >= count)
    }

    /// Stops the server like a killed daemon: connections close, and the socket file stays.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Ends the server if it still runs, and starts it again with the same socket path and script.
    pub fn restart(&mut self) {
        self.stop();
        fs::remove_file(self.socket()).unwrap();
        self.server = Some(Server::start(&self.socket(), Arc::clone(&self.shared)));
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.stop();
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("cri.sock")
}

impl Script {
    /// Returns the reply to this call, the runtime and the node's state.
    pub(super) fn reply(
        &mut self,
        rpc: Rpc,
        target: &RequestTarget,
        id: &str,
    ) -> (Reply, RuntimeKind, Arc<Node>) {
        if target.begins_relist() && self.kind.refusal(rpc).is_none() {
            self.current = Some(self.current.map_or(0, |step| (step + 1).min(self.steps.len() - 1)));
        }
        let step = &mut self.steps[self.current.unwrap_or(0)];
        let reply = self.rules.iter_mut().rev().find_map(|rule| rule.take(rpc, id));
        let reply = reply.or_else(|| step.rules.iter_mut().rev().find_map(|rule| rule.take(rpc, id)));
        (reply.unwrap_or_else(Reply::normal), self.kind, Arc::clone(&step.node))
    }

    /// Returns how the next `GetContainerEvents` is answered; the last attempt repeats.
    pub(super) fn next_attempt(&mut self) -> Option<Attempt> {
        if self.attempts.len() == 1 { self.attempts.front().cloned() } else { self.attempts.pop_front() }
    }
}

/// A rule that is not complete yet.
#[derive(Debug)]
#[must_use = "finish the rule with a reply"]
pub struct RuleBuilder<'a> {
    fake: &'a FakeRuntime,
    rpc: Rpc,
    id: Option<String>,
}

impl RuleBuilder<'_> {
    /// Limits the rule to calls about this container or sandbox, or with this filter.
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Gives every call this reply.
    pub fn reply(self, reply: Reply) {
        self.sequence([reply], true);
    }

    /// Gives each call the next reply; the last reply repeats.
    pub fn replies(self, replies: impl IntoIterator<Item = Reply>) {
        self.sequence(replies, true);
    }

    /// Gives this number of calls this reply; later calls get the replies of older rules.
    pub fn times(self, count: usize, reply: &Reply) {
        self.sequence(std::iter::repeat_n(reply.clone(), count), false);
    }

    /// Never answers.
    pub fn hang(self) {
        self.reply(Reply::hang());
    }

    /// Gives the default answer when the gate is open.
    pub fn hold(self, gate: &Gate) {
        self.reply(Reply::held(gate));
    }

    /// Gives the default answer after this time.
    pub fn delay(self, delay: Duration) {
        self.reply(Reply::normal().after(delay));
    }

    /// Answers with a gRPC status.
    pub fn fail(self, code: Code, text: &str) {
        self.reply(Reply::fail(code, text));
    }

    /// Answers with a message without fields.
    pub fn empty(self) {
        self.reply(Reply::empty());
    }

    /// Gives the default answer, padded to at least this number of bytes.
    pub fn oversize(self, bytes: usize) {
        self.reply(Reply::oversize(bytes));
    }

    /// Closes the connection instead of answering.
    pub fn close(self) {
        self.reply(Reply::connection_fault(ConnectionFault::Close));
    }

    fn sequence(self, replies: impl IntoIterator<Item = Reply>, last_stays: bool) {
        self.fake.script().rules.push(Rule::sequence(self.rpc, self.id, replies, last_stays));
    }
}
