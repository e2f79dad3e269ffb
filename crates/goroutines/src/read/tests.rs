//! Tests of `read` with whole dumps in every format.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::dump::Form;

/// A dump of two goroutines.
const TWO: &str = "goroutine 1 [running]:\nmain.dump(0x1)\n\t/a/main.go:7 +0x1\n\ngoroutine 2 [select, 3 minutes]:\n\
                   main.(*T).wait(0xc000010, {0x2?, 0x3})\n\t/a/t.go:9 +0x2\ncreated by main.main in goroutine 1\n\t/a/main.go:3 +0x9\n";

fn parsed(text: &str) -> ParsedSource {
    read(text.as_bytes(), Bounds::default()).unwrap()
}

#[test]
fn a_dump_is_read_with_ages_frames_and_creators() {
    let reading = parsed(TWO);
    let dump = &reading.dumps[0];
    assert_eq!((dump.form, dump.announced, dump.count(), dump.not_understood), (Form::Traces, 2, 2, 0));
    let second = &dump.goroutines[1];
    assert_eq!((second.id, &*second.state, second.minutes), (Some(2), "select", Some(3)));
    assert_eq!(second.frames[0].receiver(), Some((0xc00_0010, true)));
    assert_eq!(second.frames[0].place.as_ref().unwrap().1, 9);
    assert_eq!(second.created_by.as_ref().unwrap().goroutine, Some(1));
}

#[test]
fn a_compressed_dump_is_read_up_to_where_it_is_incomplete() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(TWO.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    assert_eq!(read(&compressed[..], Bounds::default()).unwrap().dumps[0].count(), 2);
    let incomplete = read(&compressed[..compressed.len() - 12], Bounds::default()).unwrap();
    assert_eq!(incomplete.cut, Some(Cut::Incomplete));
}

#[test]
fn several_dumps_in_one_file_are_separated() {
    assert_eq!(parsed(&format!("{TWO}\n{TWO}")).dumps.len(), 2);
    let marked = format!("=== BEGIN goroutine stack dump ===\n{TWO}\n=== END goroutine stack dump ===\n");
    assert_eq!(parsed(&format!("{marked}a line between\n{marked}")).dumps.len(), 2);
    let other = TWO.replace("goroutine 1 ", "goroutine 7 ").replace("goroutine 2 ", "goroutine 8 ");
    let other = other.replace("main.dump(", "main.dumpStacks(");
    let reading = parsed(&format!("{TWO}\n{other}"));
    let sizes: Vec<_> = reading.dumps.iter().map(|dump| (dump.announced, dump.count())).collect();
    assert_eq!(sizes, [(2, 2), (2, 2)]);
}

#[test]
fn a_goroutine_with_an_unknown_header_is_counted_and_kept() {
    let reading = parsed(&format!("{TWO}\ngoroutine 3 [select, for ever]:\nmain.f()\n\t/a/f.go:1\n"));
    let dump = &reading.dumps[0];
    assert_eq!((dump.announced, dump.count(), dump.not_understood), (3, 3, 1));
    assert_eq!(dump.goroutines[2].frames.len(), 1);
}

#[test]
fn ancestors_elided_frames_and_unavailable_stacks_are_understood() {
    let text = "goroutine 9 [chan receive]:\nmain.f(0x1)\n\t/a.go:1 +0x1\n...23 frames elided...\n\
                created by main.g\n\t/a.go:2 +0x1\n[originating from goroutine 4]:\nmain.h(...)\n\t/a.go:3 +0x1\n\
                created by main.i\n\t/a.go:4\n\ngoroutine 10 [running]:\n\tgoroutine running on other thread; stack unavailable\n\
                created by main.j in goroutine 1\n\t/a.go:5 +0x3\n";
    let dump = &parsed(text).dumps[0];
    assert_eq!((dump.count(), dump.not_understood), (2, 0));
    assert_eq!(dump.goroutines[0].frames.len(), 1);
    assert_eq!(
        (dump.goroutines[0].elided, &*dump.goroutines[0].created_by.as_ref().unwrap().function),
        (23, "main.g")
    );
    assert!(dump.goroutines[1].unavailable);
}

#[test]
fn a_crash_dump_with_goroutine_zero_and_registers_is_understood() {
    let text = "SIGQUIT: quit\nPC=0x49d701 m=0 sigcode=0\n\ngoroutine 0 gp=0x1 m=0 mp=0x2 [idle]:\nruntime.futex(0x1)\n\t/r.s:5 +0x21 fp=0x7 sp=0x8 pc=0x9\n\n\
                goroutine 1 gp=0x3 m=nil [chan receive]:\nruntime.gopark(0x4?)\n\t/p.go:474 +0xca fp=0x1 sp=0x2 pc=0x3\n\nrax    0xca\nrbx    0x0\n";
    let dump = &parsed(text).dumps[0];
    assert_eq!((dump.form, dump.count(), dump.not_understood), (Form::Crash, 2, 0));
}

#[test]
fn a_profile_counts_the_goroutines_of_each_stack() {
    let text = "goroutine profile: total 14\n12 @ 0x1 0x2\n#\t0x1\ta.f+0x1\t/a.go:1\n#\t0x2\ta.g+0x1\t/a.go:2\n\n2 @ 0x3\n# labels: {\"k\":\"v\"}\n#\t0x3\ta.h+0x1\t/a.go:3\n";
    let dump = &parsed(text).dumps[0];
    assert_eq!((dump.form, dump.announced, dump.count(), dump.goroutines.len()), (Form::Profile, 14, 14, 2));
    assert_eq!(dump.goroutines[0].frames.len(), 2);
}

#[test]
fn each_kind_of_source_without_a_dump_has_its_error() {
    let why = |text: &[u8]| read(text, Bounds::default()).unwrap_err();
    assert!(matches!(why(b""), Error::Empty));
    assert!(matches!(why(b"hello\nworld\n"), Error::NoDump { lines: 2 }));
    assert!(matches!(
        why(b"2026-11-21 18:00:00\nFull thread dump OpenJDK 64-Bit Server VM:\n\n\"main\" #1 prio=5\n"),
        Error::Java
    ));
    assert!(matches!(why(b"\x0a\x04\x08\x01\x10\x00\x00\x02\n"), Error::Binary));
}

#[test]
fn many_incomplete_headers_are_counted_and_kept_up_to_the_limit() {
    let headers = "goroutine 1 [\n".repeat(1000);
    let reading = read(headers.as_bytes(), Bounds { bytes: 1 << 20, goroutines: 100 }).unwrap();
    assert_eq!(reading.cut, Some(Cut::Goroutines));
    assert_eq!(reading.dumps.iter().map(|dump| dump.announced).sum::<u64>(), 1000);
    assert_eq!(reading.dumps.iter().map(|dump| dump.goroutines.len()).sum::<usize>(), 100);
    let short = read(headers.as_bytes(), Bounds { bytes: 140, goroutines: 100 }).unwrap();
    assert_eq!(short.cut, Some(Cut::Bytes));
}

#[test]
fn dumps_over_the_limit_are_added_to_the_last_dump() {
    let reading = parsed(&format!("{TWO}\n").repeat(200));
    assert_eq!(reading.dumps.len(), 64);
    assert_eq!(reading.dumps.iter().map(Dump::count).sum::<u64>(), 400);
}
