//! Describes the machine that a benchmark runs on.

use std::fs;

/// One line about the machine: system, cores, processor, build, and whether other programs are running.
pub(crate) fn machine_line() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, model)| model.trim()));
    let build = if cfg!(debug_assertions) { "debug build (figures mean little)" } else { "release build" };
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load = load.as_deref().and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    let busy = load
        .filter(|load| *load > 0.5)
        .map(|load| format!(", busy with other work (load average {load:.1})"));
    format!(
        "{} {}, {cores} cores, {}, {build}{}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        model.unwrap_or("unknown processor"),
        busy.unwrap_or_default()
    )
}
