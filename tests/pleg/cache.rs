//! The status cache, as pod workers see it.

use std::sync::Arc;
use std::time::Duration;

use plegctl::clock::Wall;
use plegctl::pleg::cache::{Cache, Newer};
use plegctl::pleg::status::PodStatus;

const T0: Wall = Wall::from_nanos(1_800_000_000_000_000_000);

fn after(seconds: u64) -> Wall {
    T0.plus(Duration::from_secs(seconds))
}

fn status(name: &str) -> Arc<PodStatus> {
    let mut status = PodStatus::unknown("a");
    status.pod.name.push_str(name);
    Arc::new(status)
}

fn is_newer(cache: &mut Cache, uid: &str, than: Wall) -> bool {
    matches!(cache.get_newer_than(uid, than), Newer::Now(_))
}

#[test]
fn a_cache_that_was_never_updated_has_nothing_newer() {
    assert!(!is_newer(&mut Cache::default(), "a", Wall::default()));
}

#[test]
fn an_entry_is_newer_by_the_global_time_or_by_its_own() {
    for (global, modified, newer) in [(20, 0, true), (5, 20, true), (5, 5, false), (10, 10, false)] {
        let mut cache = Cache::default();
        cache.set("a", Some(status("x")), None, after(modified));
        cache.update_time(after(global));
        assert_eq!(is_newer(&mut cache, "a", after(10)), newer, "global {global}, modified {modified}");
    }
}

#[test]
fn a_missing_entry_is_newer_by_the_global_time_alone() {
    let mut cache = Cache::default();
    cache.update_time(after(5));
    assert!(!is_newer(&mut cache, "a", after(10)));
    cache.update_time(after(11));
    match cache.get_newer_than("a", after(10)) {
        Newer::Now(cached) => assert_eq!(*cached.status.unwrap(), PodStatus::unknown("a")),
        Newer::Later(_) => panic!("the global time is newer"),
    }
}

#[test]
fn what_was_set_is_got_errors_included_until_it_is_deleted() {
    let mut cache = Cache::default();
    for (status, error) in
        [(Some(status("x")), None), (Some(status("y")), Some("bad")), (None, Some("worse"))]
    {
        cache.set("a", status.clone(), error.map(str::to_owned), T0);
        let cached = cache.get("a");
        assert_eq!((cached.status, cached.error.as_deref()), (status, error));
    }
    cache.delete("a");
    let unknown = cache.get("a");
    assert_eq!((*unknown.status.unwrap()).clone(), PodStatus::unknown("a"));
    assert_eq!(unknown.error, None);
}

/// What may release a waiter.
#[derive(Clone, Copy, Debug)]
enum Action {
    Set,
    SetObservedTime,
    UpdateTime,
    Delete,
}

impl Action {
    fn take(self, cache: &mut Cache, time: Wall) {
        match self {
            Self::Set => assert!(cache.set("a", Some(status("new")), None, time)),
            Self::SetObservedTime => cache.set_observed_time("a", time),
            Self::UpdateTime => cache.update_time(time),
            Self::Delete => cache.delete("a"),
        }
    }
}

#[test]
fn a_waiter_is_released_by_what_is_newer_and_not_by_what_is_older() {
    let existing = [Action::Set, Action::SetObservedTime, Action::UpdateTime].map(|action| (true, action));
    let missing = [Action::Set, Action::UpdateTime].map(|action| (false, action));
    for (exists, action) in existing.into_iter().chain(missing) {
        let mut cache = Cache::default();
        if exists {
            cache.set("a", Some(status("old")), None, T0);
        }
        let Newer::Later(mut answer) = cache.get_newer_than("a", after(10)) else {
            panic!("nothing is newer yet");
        };
        action.take(&mut cache, after(9));
        assert!(answer.try_recv().is_err(), "{action:?} before the minimum");
        action.take(&mut cache, after(11));
        assert!(answer.try_recv().is_ok(), "{action:?} after the minimum");
        assert!(is_newer(&mut cache, "a", after(10)), "{action:?}, asked again");
    }
}

#[test]
fn a_waiter_is_released_at_its_minimum_although_that_is_not_newer() {
    for action in [Action::Set, Action::UpdateTime] {
        let mut cache = Cache::default();
        let Newer::Later(mut answer) = cache.get_newer_than("a", after(10)) else {
            panic!("nothing is newer yet");
        };
        action.take(&mut cache, after(10));
        assert!(answer.try_recv().is_ok(), "{action:?}");
        assert!(!is_newer(&mut cache, "a", after(10)), "{action:?}");
    }
}

#[test]
fn a_deletion_tells_nobody() {
    let mut cache = Cache::default();
    cache.set("a", Some(status("x")), None, T0);
    let Newer::Later(mut answer) = cache.get_newer_than("a", after(10)) else {
        panic!("nothing is newer yet");
    };
    Action::Delete.take(&mut cache, after(20));
    assert!(answer.try_recv().is_err());
}

#[test]
fn with_the_evented_gate_what_is_older_is_refused_and_what_is_as_old_is_not() {
    let mut cache = Cache::new(true);
    assert!(cache.set("a", Some(status("x")), None, after(10)));
    assert!(!cache.set("a", Some(status("y")), None, after(9)));
    assert!(cache.set("a", Some(status("z")), None, after(10)));
    let mut ungated = Cache::new(false);
    assert!(ungated.set("a", Some(status("x")), None, after(10)));
    assert!(ungated.set("a", Some(status("y")), None, after(9)));
}
