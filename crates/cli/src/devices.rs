//! `pelton devices`: lists the devices, with what they can do or why they are absent.

use pelton::{Placement, kernel};
use pelton_device::{Caps, DeviceError, names, open};
use serde_json::json;

use crate::CliStatus;
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// List the devices of this machine, with what they can do or why they are absent
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton devices
  pelton devices --json
  pelton exec sum.pel --device cpu:2 --buffer data=iota:64")]
pub(crate) struct DevicesArgs {
    /// Print one JSON object per device instead
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_devices(args: &DevicesArgs, term: &Term) -> Result<CliStatus, CliError> {
    for name in names() {
        let name = name.as_str();
        let found = open(name).map(|device| device.caps().clone());
        if args.json {
            term.line(device_json(name, &found))?;
        } else {
            print_device(name, &found, term)?;
        }
    }
    Ok(CliStatus::Fine)
}

fn print_device(name: &str, found: &Result<Caps, DeviceError>, term: &Term) -> Result<(), CliError> {
    let caps = match found {
        Ok(caps) => caps,
        Err(error) => {
            let why = match error {
                DeviceError::Absent { why, .. } => why.clone(),
                error => error.to_string(),
            };
            return term.line(format_args!(
                "{}  {}",
                term.paint(TextRole::Faint, format!("{name:<10}")),
                why
            ));
        }
    };
    term.line(format_args!("{}  {}", term.paint(TextRole::Strong, format!("{name:<10}")), caps.about))?;
    let yes = |b| if b { "yes" } else { "no" };
    let rows = [
        ("kernels that stay", yes(caps.persistent).into()),
        ("lanes per group", format!("{} by default, at most {}", caps.lanes, caps.max_lanes)),
        ("groups", format!("{} by default, {}", caps.groups, resident_text(caps))),
        (
            "subgroups",
            format!(
                "{} lanes; independent of each other: {}",
                caps.subgroup,
                yes(caps.independent_subgroups)
            ),
        ),
        ("orders reach", caps.scope.to_string()),
        ("shared memory", format!("{} KiB per group", caps.shared_bytes / 1024)),
        ("idle kernels", idle_text(caps)),
        ("rings", rings_text(caps)),
    ];
    for (what, value) in rows {
        term.line(format_args!("            {what:<18} {value}"))?;
    }
    Ok(())
}

fn resident_text(caps: &Caps) -> String {
    match caps.resident {
        u32::MAX => "any number resident together".into(),
        n => format!("at most {n} resident together"),
    }
}

fn idle_text(caps: &Caps) -> String {
    match kernel::longest_rest(caps) {
        Some(rest) => format!("poll for tasks at least every {} us", rest.as_nanos() as f64 / 1e3),
        None => "sleep until they are woken".into(),
    }
}

fn rings_text(caps: &Caps) -> String {
    let there = placement_words(caps).join(", ");
    match &caps.near_memory {
        Err(why) => format!("{there}; no near rings: {why}"),
        Ok(()) => there,
    }
}

fn placement_words(caps: &Caps) -> Vec<&'static str> {
    Placement::available(caps).iter().map(|placement| placement.word()).collect()
}

fn device_json(name: &str, found: &Result<Caps, DeviceError>) -> serde_json::Value {
    match found {
        Err(error) => json!({ "name": name, "there": false, "why": error.to_string() }),
        Ok(caps) => json!({
            "name": name,
            "there": true,
            "about": caps.about,
            "persistent": caps.persistent,
            "scope": caps.scope.word(),
            "subgroup": caps.subgroup,
            "independent_subgroups": caps.independent_subgroups,
            "lanes": caps.lanes,
            "max_lanes": caps.max_lanes,
            "groups": caps.groups,
            "resident": caps.resident,
            "units": caps.units,
            "memory_bytes": caps.memory_bytes,
            "shared_bytes": caps.shared_bytes,
            "placements": placement_words(caps),
            "why_far": caps.near_memory.as_ref().err(),
            "async_copies": caps.async_copies,
            "idle_ns": kernel::longest_rest(caps).map(|rest| rest.as_nanos() as u64),
        }),
    }
}
