//! Reads the status of a pod in the API server's JSON form, as the kubelet and the API server send it.

use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::clock::Wall;

/// Reads a time of the API; `None` if it is absent or in another form.
pub fn moment(time: Option<&Value>) -> Option<Wall> {
    let time = humantime::parse_rfc3339(time?.as_str()?).ok()?;
    Wall::known(i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?)
}

/// Returns the entries of a status's list, such as `conditions`.
pub fn entries<'a>(status: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    status.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the time of the last transition of a condition.
pub fn transition(status: &Value, condition: &str) -> Option<Wall> {
    let mut conditions = entries(status, "conditions");
    moment(
        conditions
            .find(|one| one.get("type").is_some_and(|name| name == condition))?
            .get("lastTransitionTime"),
    )
}

/// Returns the statuses of the containers, including init containers.
pub fn container_statuses(status: &Value) -> impl Iterator<Item = &Value> {
    entries(status, "containerStatuses").chain(entries(status, "initContainerStatuses"))
}
