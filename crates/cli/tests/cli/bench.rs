//! `pelton bench`: what rows hold.

use serde_json::Value;

use crate::pelton;

/// Runs a benchmark and gives its rows.
fn rows(args: &[&str]) -> Vec<Value> {
    let ran = pelton(&[&["bench"], args, &["--json", "-"]].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

#[test]
fn rows_say_how_far_rounds_differ() {
    for (group, only, rounds) in
        [("session", "fused, no telemetry", 3), ("device", "map", 1), ("echo", "trip", 2)]
    {
        let given = rounds.to_string();
        let rows = rows(&[group, "--only", only, "--rounds", &given]);
        let (compared, alone): (Vec<&Value>, Vec<&Value>) =
            rows.iter().partition(|row| row["against"].is_string());
        assert!(compared.len() >= 2, "{rows:?}");
        for row in compared {
            let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
            assert_eq!(row["rounds"], rounds, "{row}");
            assert!(row["steady"].is_boolean() && (rounds >= 3 || row["steady"] == false), "{row}");
            assert!(figure("value") > 0.0 && figure("against_value") > 0.0, "{row}");
            assert!(0.0 < figure("ratio_low") && figure("ratio_low") <= figure("ratio"), "{row}");
            assert!(figure("ratio") <= figure("ratio_high"), "{row}");
        }
        for row in alone {
            for name in ["against_value", "ratio", "ratio_low", "ratio_high", "rounds", "steady"] {
                assert_eq!(row.get(name), Some(&Value::Null), "{name} of {row}");
            }
        }
    }
}

#[test]
fn one_round_is_marked_in_the_table() {
    let ran = pelton(&["bench", "session", "--quick", "--only", "drain 256", "--rounds", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("ratio  quartiles") && lines[0].ends_with("rounds"), "{}", ran.out);
    assert_eq!(lines.iter().filter(|line| line.contains("×~ ")).count(), 1, "{}", ran.out);
    assert!(lines[3].starts_with("~ "), "{}", ran.out);
    assert_eq!(pelton(&["bench", "session", "--rounds", "0"]).code, Some(64));
}
