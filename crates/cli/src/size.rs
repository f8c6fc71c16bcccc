//! Parses sizes on the command line, and spells them for people.

/// The hint in errors about something that is not a size.
const FORM: &str = "write a number of bytes, or one with K, M, G or T, as in 10M";

/// Parses a size such as `4096`, `500K`, `10M`, `1.5G` or `256MiB`. The letters stand for powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(FORM.into()),
    };
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        let size = whole.checked_mul(1 << shift);
        return size.ok_or_else(|| format!("it must be at most {}", u64::MAX));
    }
    let fraction: f64 = number.parse().map_err(|_| FORM)?;
    Ok((fraction * (1u64 << shift) as f64) as u64)
}

/// Spells a size with the unit that fits it, as in `1.2 MiB`.
pub(crate) fn spell_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(size.fract() != 0.0);
    format!("{size:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1_000", 1000),
            ("500K", 500 << 10),
            ("500k", 500 << 10),
            ("10M", 10 << 20),
            ("256MiB", 256 << 20),
            ("1.5G", 3 << 29),
            ("2 GB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_says_why() {
        for text in ["", "M", "ten", "10X", "-1", "1.2.3", "1e5", "_"] {
            assert_eq!(parse_size(text), Err(FORM.into()), "{text}");
        }
        assert!(parse_size("99999999T").unwrap_err().starts_with("it must be at most"));
    }

    #[test]
    fn sizes_are_spelled_with_the_unit_that_fits() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (256 << 20, "256 MiB")]
        {
            assert_eq!(spell_size(bytes), text);
        }
    }
}
