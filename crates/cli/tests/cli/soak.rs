//! `pelton bench soak`: small versions of the loads that run for hours.

use serde_json::Value;

use crate::pelton;

/// Runs a load, and returns its rows.
fn soak(args: &[&str]) -> Vec<Value> {
    let ran = pelton(&[&["bench", "soak", "--json", "-"], args].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// The number with which the name of a row begins.
fn count_of(row: &Value) -> u64 {
    let case = row["case"].as_str().expect("a row has a case");
    case.split(' ').next().and_then(|number| number.parse().ok()).expect("it begins with a number")
}

#[test]
fn marked_tasks_on_local_devices() {
    for (device, tasks) in [("cpu", 20_000), ("reference", 300)] {
        let rows = soak(&["--device", device, "--tasks", &tasks.to_string(), "--producers", "2"]);
        assert!(rows.len() == 1 && count_of(&rows[0]) == tasks, "{rows:?}");
    }
}

#[test]
fn random_graphs_on_local_devices() {
    for (device, graphs) in [("cpu", 400), ("reference", 12)] {
        for placement in ["near", "far", "both"] {
            let count = graphs.to_string();
            let rows =
                soak(&["--load", "graphs", "--device", device, "--graphs", &count, "--placement", placement]);
            assert!(rows.len() == 2 && rows.iter().all(|row| count_of(row) == graphs), "{rows:?}");
        }
    }
}

#[test]
fn tasks_of_every_kind_on_local_devices() {
    for (device, tasks) in [("cpu", 30_000), ("reference", 1000)] {
        for (placement, producers) in [("near", "8"), ("far", "3"), ("both", "1")] {
            let count = tasks.to_string();
            let load = ["--load", "stress", "--device", device, "--tasks", &count, "--seed", producers];
            let shape = ["--placement", placement, "--producers", producers];
            let rows = soak(&[&load[..], &shape].concat());
            assert!(rows.len() == 1 && count_of(&rows[0]) >= tasks, "{rows:?}");
        }
    }
}

#[test]
fn options_of_another_load_are_refused() {
    for args in [
        &["--graphs", "5"][..],
        &["--load", "stress", "--graphs", "5"],
        &["--load", "graphs", "--tasks", "5"],
    ] {
        let ran = pelton(&[&["bench", "soak"], args].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("has no meaning for this load"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn too_few_slots_are_refused() {
    let ran = pelton(&["bench", "soak", "--load", "stress", "--slots", "64"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("64 slots per ring are too few for this load; it needs 128"), "{}", ran.err);
}
