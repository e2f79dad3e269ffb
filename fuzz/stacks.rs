//! Fuzzes the reader of goroutine dumps: any line may be cut, damaged or from another program. The reader must count
//! every goroutine, also those that it cannot parse.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use plegctl_engine::stacks::judge::{DumpSource, KnownHangs, judge};
use plegctl_engine::stacks::read::{Bounds, read};
use plegctl_engine::stacks::signatures::signatures;

use super::fuzz;

/// One dump of each form, of each daemon, and of the oldest and the newest Go version.
const SEEDS: [&str; 10] = [
    "c16-lock.t5.usr1.gz",
    "c16-runc.t5.shim-kill.usr1log.gz",
    "c2-base.idle.debug1.gz",
    "c2-bolt.t200.usr1.gz",
    "c2-cni.t5.usr1.gz",
    "c2-lock.t5.usr1.logline.gz",
    "c2-quit.t.sigquit.gz",
    "k2-lock.t35.kubelet.debug1.gz",
    "k2-lock.t35.kubelet.debug2.gz",
    "o-cni.t5.usr1.gz",
];

/// A form that the recordings do not have.
const FORMS: &str = "Nov 21 18:33:10 n containerd[812]: goroutine 1 [select labels:{\"a]\": \"b\\\"}, 3 minutes\"}, 5 minutes, locked to thread]:
Nov 21 18:33:10 n containerd[812]: main.f(0x1, {0x2?, _}, ...)
Nov 21 18:33:10 n containerd[812]: \t/a.go:1 +0x1 fp=0x1 sp=0x2 pc=0x3
Nov 21 18:33:10 n containerd[812]: ...additional frames elided...
Nov 21 18:33:10 n containerd[812]: created by main.main in goroutine 1

goroutine 2 gp=0xc000 m=3 mp=0x1 [GC worker (idle), synctest bubble 4]:
\tgoroutine running on other thread; stack unavailable
[originating from goroutine 7]:
a/b.Q[...].Send(0x1)
\t/a b.go:2
goroutine profile: total 3
3 @ 0x1 0x2
# labels: {\"a\":\"b\"}
#\t0x1\ta.f+0x1\t/a.go:1
";

/// The number of goroutines is below the reader's limit.
const BOUNDS: Bounds = Bounds { bytes: 60_000, goroutines: 200 };

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks");
    let mut seeds = vec![FORMS.as_bytes().to_vec()];
    for name in SEEDS {
        let packed = fs::read(folder.join(name)).unwrap();
        let mut text = Vec::new();
        MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
        // Small parts, so that mutations hit what matters and a case is fast.
        seeds.extend(text.chunks(12 * 1024).take(4).map(<[u8]>::to_vec));
        seeds.push(packed);
    }
    seeds
}

/// Counts the lines that certainly begin a goroutine. The reader may find more goroutines, but never fewer.
fn headers(text: &[u8]) -> u64 {
    let whole = |line: &&str| {
        let digits = line.strip_prefix("goroutine ").and_then(|rest| rest.strip_suffix(" [select]:"));
        digits.is_some_and(|digits| {
            digits.len() < 10 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let read = usize::try_from(BOUNDS.bytes).unwrap().min(text.len());
    String::from_utf8_lossy(&text[..read]).lines().filter(whole).count().try_into().unwrap()
}

#[test]
fn stacks() {
    let known = signatures();
    fuzz("stacks", seeds(), |bytes| {
        let reading = match read(bytes, BOUNDS) {
            Ok(reading) => reading,
            Err(why) => {
                assert!(bytes.starts_with(&[0x1f, 0x8b]) || headers(bytes) == 0, "{why}");
                return;
            }
        };
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            let announced = reading.dumps.iter().map(|dump| dump.announced).fold(0, u64::saturating_add);
            assert!(announced >= headers(bytes), "{announced} of {}", headers(bytes));
        }
        let kept: usize = reading.dumps.iter().map(|dump| dump.goroutines.len()).sum();
        assert!(kept <= BOUNDS.goroutines, "{kept}");
        let source = |dump| DumpSource { name: "fuzz".to_owned(), dump, ..DumpSource::default() };
        let sources: Vec<DumpSource> = reading.dumps.into_iter().map(source).collect();
        let report = judge(&sources, &known, &KnownHangs::default());
        assert_eq!(report.dumps.len(), sources.len());
        serde_json::to_string(&report).unwrap();
    });
}
