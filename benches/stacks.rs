//! Measures the time to read and judge a goroutine dump of a blocked runtime, compared with reading the file.

pub mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use support::process::{PLEGCTL, peak_memory, wall};
use support::{figure, heading, in_turn, mebibytes, ratio};

const SIZES: [usize; 2] = [500, 10_000];

const TURNS: usize = 20;

/// The goroutine that holds the lock, and one of its waiters, in containerd 2's format.
const HOLDER: &str = "[select, 3 minutes]:
github.com/containerd/ttrpc.(*Client).dispatch(0x1382d17642d0, {0x2b3e820, 0x1382d1862600}, 0x8?, 0x1382d18569b0)
\t/go/ttrpc/client.go:541 +0x1c5
github.com/containerd/containerd/api/runtime/task/v3.(*ttrpctaskClient).Update(0x1382d0aedac8, {0x2b3e820, 0x1382d181dd70}, 0x1382d1856690)
\t/go/task/v3/shim_ttrpc.pb.go:341 +0x8a
github.com/containerd/containerd/v2/internal/cri/store/container.(*statusStorage).UpdateSync(0x1382d1733a70, 0x1382d1940c90)
\t/go/internal/cri/store/container/status.go:185 +0x7d
github.com/containerd/containerd/v2/internal/cri/server.(*criService).UpdateContainerResources(0x1382d0f79448, {0x2b3e820, 0x1382d1940c60}, 0x1382d19405a0)
\t/go/internal/cri/server/container_update_resources.go:54 +0x31a
k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_UpdateContainerResources_Handler({0x274d338, 0x1382d0dd2200}, {0x2b3e820, 0x1382d1862960}, 0x1382d1813e80, 0x1382d0b74520)
\t/go/cri-api/api_grpc.pb.go:901 +0x143
created by google.golang.org/grpc.(*Server).serveStreams.func2 in goroutine 57
\t/go/grpc/server.go:1035 +0x135
";
const WAITER: &str = "[sync.RWMutex.RLock, 3 minutes]:
sync.runtime_SemacquireRWMutexR(0x0?, 0x0?, 0x0?)
\t/go/runtime/sema.go:100 +0x25
sync.(*RWMutex).RLock(...)
\t/go/sync/rwmutex.go:74
github.com/containerd/containerd/v2/internal/cri/store/container.(*statusStorage).Get(0x1382d1733a70)
\t/go/internal/cri/store/container/status.go:170 +0x54
github.com/containerd/containerd/v2/internal/cri/server.(*criService).ListContainers(0x1382d0f79448, {0x2b3e820, 0x1382d18e4ff0}, 0x1382d19721e0)
\t/go/internal/cri/server/container_list.go:44 +0x1e6
k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_ListContainers_Handler({0x274d338, 0x1382d0dd2200}, {0x2b3e820, 0x1382d1862960}, 0x1382d1813e80, 0x1382d0b74520)
\t/go/cri-api/api_grpc.pb.go:861 +0x143
created by google.golang.org/grpc.(*Server).serveStreams.func2 in goroutine 57
\t/go/grpc/server.go:1035 +0x135
";

fn main() {
    let place = std::env::temp_dir().join(format!("plegctl-bench-stacks-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory for temporary files");
    heading("stacks, whole process", "stacks");
    for size in SIZES {
        let path = place.join(format!("{size}.log"));
        fs::write(&path, dump(size)).expect("it is ours");
        let path = text(&path);
        let stacks = ["stacks", "--no-live", "-o", "json", path];
        let (ours, reading) = in_turn(TURNS, || wall(PLEGCTL, &stacks), || wall("/bin/cat", &[path]));
        ratio(&format!("plegctl stacks, {size} goroutines"), &ours, "/bin/cat of them", &reading);
        figure("  peak memory", &mebibytes(peak_memory(PLEGCTL, &stacks)));
    }
    fs::remove_dir_all(&place).expect("it was made above");
}

/// Creates a goroutine dump with one holder and many waiters.
fn dump(size: usize) -> String {
    let mut text = format!("goroutine 7 {HOLDER}\n");
    for id in 100..100 + size - 1 {
        let _ = writeln!(text, "goroutine {id} {WAITER}");
    }
    text
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}
