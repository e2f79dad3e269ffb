//! Fuzzes the answers of a runtime: plegctl reads them from a socket, decodes them and makes a relist of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::server::{Answer, Bytes, CallRequest, InProcess, Service, ServiceError, message};
use plegctl_engine::cri::{Filter, Labels, Rpc, Runtime, Version};

use super::fuzz;

/// A server that answers everything with the same bytes.
#[derive(Default)]
struct FixedAnswer(Mutex<Bytes>);

impl Service for FixedAnswer {
    async fn answer(self: Arc<Self>, _: CallRequest) -> Result<Answer, ServiceError> {
        Ok(Answer::one(self.0.lock().unwrap().clone()))
    }
}

/// Typical answers, with the CRI's field numbers.
fn seeds() -> Vec<Vec<u8>> {
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }
    let pair = |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let labels = |number: u8| {
        [("io.kubernetes.pod.uid", "u-1"), ("io.kubernetes.pod.name", "web")]
            .map(|(key, value)| field(number, &pair(key, value)))
            .concat()
    };
    let metadata = [field(1, b"web"), field(2, b"u-1"), field(3, b"default"), vec![0x20, 1]].concat();
    let created = [0x38, 0xff, 0xff, 0x83, 0xde, 0x01];
    let sandbox = [field(1, b"s1"), field(2, &metadata), vec![0x18, 0, 0x20, 9], labels(5)].concat();
    let container = [
        field(1, b"c1"),
        field(2, b"s1"),
        field(3, b"\x0a\x03app"),
        field(4, b"\x0a\x05img:1"),
        vec![0x30, 1],
    ];
    let container = [container.concat(), created.to_vec(), labels(8)].concat();
    let status =
        [field(1, b"c1"), field(2, b"\x0a\x03app"), vec![0x18, 2, 0x38, 137, 1], field(10, b"Error")];
    let status = [status.concat(), field(14, &pair("/in", "/out"))].concat();
    vec![
        message::version(Version { runtime_name: "containerd".into(), ..Version::default() }).to_vec(),
        [field(1, &sandbox[..100.min(sandbox.len())]), field(1, &sandbox[..90.min(sandbox.len())])].concat(),
        field(1, &container[..120.min(container.len())]),
        field(1, &status),
        [field(1, b"c1"), vec![0x10, 2, 0x18, 5], field(5, &status)].concat(),
        Vec::new(),
    ]
}

#[test]
fn cri_answers() {
    let server = Arc::new(FixedAnswer::default());
    let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = event_loop.block_on(async {
        let server = InProcess::start("fuzz:server", Arc::clone(&server)).unwrap();
        server.client(Duration::from_secs(60), Arc::new(SystemClock::start()))
    });
    let streaming = client.clone().with_streamed_lists();
    fuzz("cri_answers", seeds(), |bytes| {
        *server.0.lock().unwrap() = Bytes::copy_from_slice(bytes);
        event_loop.block_on(async {
            let (sandboxes, containers) = (Filter::default(), Filter::default());
            let version = client.version().await;
            assert_eq!(version.rpc, Rpc::Version);
            let _ = client.status().await;
            let _ = client.cgroup_driver().await;
            let listed = client.list_sandboxes(&sandboxes).await;
            if let Ok(listed) = &listed.result {
                // Decoded labels have no more bytes than the answer.
                let size: usize = listed.iter().map(|sandbox| size_of_labels(&sandbox.labels)).sum();
                assert!(size <= bytes.len());
            }
            let streamed = streaming.list_sandboxes(&sandboxes).await;
            assert_eq!(streamed.result.is_ok(), listed.result.is_ok());
            let _ = client.list_containers(&containers).await;
            let _ = client.sandbox_status("s1").await;
            let _ = client.container_status("c1").await;
            let _ = client.container_stats("c1").await;
            let mut events = client.container_events().await.unwrap();
            while let Ok(Some(_)) = events.next().await {}
        });
    });
}

fn size_of_labels(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len()).sum()
}
