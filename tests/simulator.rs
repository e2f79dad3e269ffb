//! Tests of the simulated runtime with real gRPC over real sockets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, process};

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::{Client, ContainerState, Error, Filter, Runtime, SandboxState};
use plegctl_engine::sim::{self, Simulator, Socket};
use tokio::sync::oneshot;

/// The deadline of each call. It is long enough for a busy machine; only a call that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

fn clock() -> Arc<SystemClock> {
    Arc::new(SystemClock::start())
}

fn client(scenario: &str) -> Client {
    let scenario = sim::load(scenario).unwrap();
    Simulator::start(&scenario, clock()).unwrap().client(DEADLINE, clock())
}

/// The path of a socket in the temporary directory. The socket is removed before and after the test.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("plegctl-sim-{}-{name}.sock", process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_quiet_node_answers_every_call() {
    let client = client("quiet");
    assert_eq!(client.version().await.result.unwrap().runtime_name, "containerd");
    let status = client.status().await.result.unwrap();
    assert!(status.conditions.iter().all(|condition| condition.holds));
    assert!(client.cgroup_driver().await.result.unwrap().is_some());

    let sandboxes = client.list_sandboxes(&Filter::default()).await.result.unwrap();
    let containers = client.list_containers(&Filter::default()).await;
    assert!(containers.response_bytes > 1000);
    for sandbox in &sandboxes {
        let answer = client.sandbox_status(&sandbox.id).await.result.unwrap();
        assert_eq!(answer.status.unwrap().metadata, sandbox.metadata);
    }
    for container in containers.result.unwrap() {
        let status = client.container_status(&container.id).await.result.unwrap().unwrap();
        assert_eq!(status.metadata, container.metadata);
        client.container_stats(&container.id).await.result.unwrap();
    }
}

#[tokio::test]
async fn list_filters_are_applied() {
    let client = client("quiet");
    let all = client.list_sandboxes(&Filter::default()).await.result.unwrap();
    let uid = all[0].metadata.clone().unwrap().uid;
    let of_pod = client.list_sandboxes(&Filter::pod(&uid)).await.result.unwrap();
    assert_eq!(of_pod, [all[0].clone()]);

    let ready = Filter { state: Some(SandboxState::Ready), ..Filter::default() };
    let ready = client.list_sandboxes(&ready).await.result.unwrap();
    assert!(!ready.is_empty() && ready.iter().all(|sandbox| sandbox.state == SandboxState::Ready));
    let running = Filter { state: Some(ContainerState::Running), ..Filter::default() };
    let running = client.list_containers(&running).await.result.unwrap();
    assert!(!running.is_empty() && running.iter().all(|it| it.state == ContainerState::Running));
}

#[tokio::test]
async fn an_unknown_id_is_not_found() {
    let client = client("quiet");
    assert!(client.sandbox_status("nobody").await.result.unwrap_err().is_not_found());
    assert!(client.container_status("nobody").await.result.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_socket_serves_any_client_and_is_removed_afterwards() {
    let path = Path::new("serve");
    let scenario = sim::load("busy-deploy").unwrap();
    let bind = || Socket::bind(&path.0, &scenario, clock());
    let socket = bind().unwrap();
    assert!(matches!(bind(), Err(sim::Error::PathTaken { .. })));
    let (end, ended) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let end = async { drop(ended.await) };
        socket.serve(end).await
    });
    let client = Client::new(&path.0, "unix:///x", DEADLINE, clock());
    assert!(!client.list_containers(&Filter::default()).await.result.unwrap().is_empty());
    drop(end);
    server.await.unwrap().unwrap();
    assert!(!path.0.exists());
}

#[test]
fn a_socket_in_a_missing_directory_cannot_be_created() {
    let path = std::path::Path::new("/nowhere/at/all.sock");
    let why = Socket::bind(path, &sim::load("quiet").unwrap(), clock()).err().unwrap();
    assert_eq!(
        why.to_string(),
        "cannot listen on `/nowhere/at/all.sock`: No such file or directory (os error 2)"
    );
}

#[test]
fn an_unknown_scenario_is_reported_with_the_known_ones_and_a_similar_one() {
    let why = sim::load("quite").unwrap_err();
    assert!(why.to_string().starts_with("there is no scenario `quite`; known are big-node, "), "{why}");
    assert_eq!(why.hint().unwrap(), "did you mean `quiet`?");
}

#[tokio::test]
async fn only_the_hung_containers_status_is_silent() {
    let client = client("hung-container");
    let containers = client.list_containers(&Filter::default()).await.result.unwrap();
    let mut silent = Vec::new();
    for container in containers {
        let name = container.metadata.clone().unwrap().name;
        // The call never ends, so a short deadline is enough.
        let client = if name == "postgres" {
            client.clone().with_deadline(Duration::from_millis(50))
        } else {
            client.clone()
        };
        match client.container_status(&container.id).await.result {
            Err(Error::Silent { .. }) => silent.push(name),
            answer => assert!(answer.is_ok(), "{answer:?}"),
        }
    }
    assert_eq!(silent, ["postgres"]);
}

/// Loads the example in docs/scenarios.md from a file.
#[test]
fn the_example_in_the_documentation_is_a_valid_scenario() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scenarios.md")).unwrap();
    let example = text.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let path = env::temp_dir().join(format!("plegctl-sim-{}-mine.yaml", process::id()));
    fs::write(&path, example).unwrap();
    let scenario = sim::load(path.to_str().unwrap());
    fs::write(&path, example.replace("lives: 40s", "livse: 40s")).unwrap();
    let malformed = sim::load(path.to_str().unwrap());
    fs::remove_file(&path).unwrap();
    let scenario = scenario.unwrap();
    assert_eq!((scenario.groups.len(), scenario.faults.len(), scenario.seed), (3, 2, 7));
    let why = malformed.unwrap_err();
    assert_eq!(why.to_string(), format!("{}:11:54: a group of pods has no `livse`", path.display()));
    assert_eq!(why.hint().unwrap(), "did you mean `lives`?");
    assert!(matches!(sim::load("./nowhere.yaml"), Err(sim::Error::Read { .. })));
}
