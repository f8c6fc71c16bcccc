//! The stored form of a catalog: bytes with a version and a checksum.

use super::bytes::{ByteReader, ByteWriter, checksum};
use super::check::is_valid;
use super::error::CatalogError;
use super::tables::{ClassRun, FactorOutput, FactorTable, WindowInfo, WindowTables};
use super::{BranchInfo, Catalog};
use crate::factor::ByteSet;

/// The bytes that a stored catalog begins with. The last two are the version, which changes with the layout, with the
/// meaning of the tables, and with the way in which they are made.
const MAGIC: [u8; 8] = *b"plscan\x00\x02";

/// The size of the magic and the checksum that follows it.
const HEAD: usize = 16;

impl Catalog {
    /// Returns the catalog as bytes, which [`from_bytes`](Self::from_bytes) reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = ByteWriter::default();
        writer.raw(&MAGIC);
        writer.u64(0);
        write_branches(&mut writer, &self.branches);
        writer.u64(self.factors.len() as u64);
        self.factors.iter().for_each(|table| write_factor_table(&mut writer, table));
        write_windows(&mut writer, &self.windows);
        write_class_runs(&mut writer, &self.class_runs);
        let mut bytes = writer.finish();
        let sum = checksum(&bytes[HEAD..]);
        bytes[MAGIC.len()..HEAD].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. Every index and every state is checked.
    ///
    /// # Errors
    ///
    /// [`CatalogError::NotACatalog`] if the bytes were written by another version, or are incomplete or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Catalog, CatalogError> {
        read_catalog(bytes).filter(is_valid).ok_or(CatalogError::NotACatalog)
    }
}

fn read_catalog(bytes: &[u8]) -> Option<Catalog> {
    let mut reader = ByteReader::new(bytes);
    if reader.array()? != MAGIC || reader.u64()? != checksum(&bytes[HEAD..]) {
        return None;
    }
    let branches = read_branches(&mut reader)?;
    let tables = reader.length(1)?;
    let factors = (0..tables).map(|_| read_factor_table(&mut reader)).collect::<Option<_>>()?;
    let windows = read_windows(&mut reader)?;
    let class_runs = read_class_runs(&mut reader)?;
    reader.end()?;
    Some(Catalog { branches, factors, windows, class_runs })
}

fn write_branches(writer: &mut ByteWriter, branches: &[BranchInfo]) {
    writer.u64(branches.len() as u64);
    for &BranchInfo { rule, prefix_max, suffix_max } in branches {
        writer.u32(rule);
        writer.optional_u32(prefix_max);
        writer.optional_u32(suffix_max);
    }
}

fn read_branches(reader: &mut ByteReader<'_>) -> Option<Vec<BranchInfo>> {
    let length = reader.length(20)?;
    let mut read = || {
        Some(BranchInfo {
            rule: reader.u32()?,
            prefix_max: reader.optional_u32()?,
            suffix_max: reader.optional_u32()?,
        })
    };
    (0..length).map(|_| read()).collect()
}

fn write_factor_table(writer: &mut ByteWriter, table: &FactorTable) {
    writer.u8_list(&table.classes);
    writer.u32(table.class_count);
    writer.u32(table.state_count);
    writer.u32(table.first_accepting);
    writer.u16_list(&table.next);
    writer.u32_list(&table.output_rows);
    writer.u64(table.outputs.len() as u64);
    for FactorOutput { branch, back, value, mask } in &table.outputs {
        writer.u32(*branch);
        writer.u32(*back);
        writer.raw(value);
        writer.raw(mask);
    }
}

fn read_factor_table(reader: &mut ByteReader<'_>) -> Option<FactorTable> {
    let mut table = FactorTable {
        classes: reader.u8_list()?,
        class_count: reader.u32()?,
        state_count: reader.u32()?,
        first_accepting: reader.u32()?,
        next: reader.u16_list()?,
        output_rows: reader.u32_list()?,
        outputs: Vec::new(),
    };
    let length = reader.length(40)?;
    let mut read = || {
        Some(FactorOutput {
            branch: reader.u32()?,
            back: reader.u32()?,
            value: reader.array()?,
            mask: reader.array()?,
        })
    };
    table.outputs = (0..length).map(|_| read()).collect::<Option<_>>()?;
    Some(table)
}

fn write_windows(writer: &mut ByteWriter, tables: &WindowTables) {
    writer.u64(tables.windows.len() as u64);
    for &WindowInfo { base, class_count, class_map, limit, at_limit } in &tables.windows {
        for value in [base, class_count, class_map, limit, u32::from(at_limit)] {
            writer.u32(value);
        }
    }
    writer.u8_list(&tables.classes);
    writer.u16_list(&tables.next);
}

fn read_windows(reader: &mut ByteReader<'_>) -> Option<WindowTables> {
    let length = reader.length(20)?;
    let mut read = || {
        Some(WindowInfo {
            base: reader.u32()?,
            class_count: reader.u32()?,
            class_map: reader.u32()?,
            limit: reader.u32()?,
            at_limit: reader.boolean()?,
        })
    };
    let windows = (0..length).map(|_| read()).collect::<Option<_>>()?;
    Some(WindowTables { windows, classes: reader.u8_list()?, next: reader.u16_list()? })
}

fn write_class_runs(writer: &mut ByteWriter, runs: &[ClassRun]) {
    writer.u64(runs.len() as u64);
    for ClassRun { branch, class, length } in runs {
        writer.u32(*branch);
        writer.u32(*length);
        let mut members = [0; 32];
        for byte in (0..=255u8).filter(|&byte| class.contains(byte)) {
            members[usize::from(byte / 8)] |= 1 << (byte % 8);
        }
        writer.raw(&members);
    }
}

fn read_class_runs(reader: &mut ByteReader<'_>) -> Option<Vec<ClassRun>> {
    let length = reader.length(40)?;
    let mut read = || {
        let (branch, length) = (reader.u32()?, reader.u32()?);
        let members: [u8; 32] = reader.array()?;
        let mut class = ByteSet::default();
        for byte in (0..=255u8).filter(|byte| members[usize::from(byte / 8)] >> (byte % 8) & 1 == 1) {
            class.insert(byte);
        }
        Some(ClassRun { branch, class, length })
    };
    (0..length).map(|_| read()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::oracle::{literal, literal_rule, run_rule};
    use crate::factor::RuleFactors;

    fn catalog() -> Catalog {
        let rules = [
            literal_rule(&[literal("ab", 1)], "[a-c]ab[x-z]{2}"),
            literal_rule(&[literal("~a", 0)], "(?i)a+"),
            RuleFactors::Always,
            run_rule("01", 3),
        ];
        Catalog::build(&rules).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        for catalog in [catalog(), Catalog::build(&[]).unwrap()] {
            assert_eq!(Catalog::from_bytes(&catalog.to_bytes()), Ok(catalog));
        }
    }

    #[test]
    fn damage_of_any_byte_is_noticed() {
        let whole = catalog().to_bytes();
        for at in 0..whole.len() {
            for flip in [1, 0x40, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                assert_eq!(Catalog::from_bytes(&bytes), Err(CatalogError::NotACatalog), "byte {at}");
            }
            assert!(Catalog::from_bytes(&whole[..at]).is_err(), "it ends at byte {at}");
        }
        assert!(Catalog::from_bytes(&[whole, vec![0]].concat()).is_err());
    }

    /// A checksum proves no good intent: tables with a right checksum but wrong contents must not be accepted either.
    #[test]
    fn wrong_tables_are_refused() {
        let changes: [fn(&mut Catalog); 17] = [
            |catalog| catalog.branches.truncate(catalog.branches.len() - 1),
            |catalog| catalog.factors[0].next[3] = catalog.factors[0].state_count as u16,
            |catalog| catalog.factors[0].classes[9] = catalog.factors[0].class_count as u8,
            |catalog| catalog.factors[0].classes.truncate(255),
            |catalog| catalog.factors[0].first_accepting = 0,
            |catalog| catalog.factors[0].first_accepting += 1,
            |catalog| catalog.factors[0].state_count = u32::MAX,
            |catalog| catalog.factors[0].output_rows[1] = 100,
            |catalog| catalog.factors[0].outputs[0].branch = 3,
            |catalog| catalog.factors[0].outputs[0].back = 0,
            |catalog| catalog.factors[0].outputs.truncate(1),
            |catalog| catalog.windows.next[7] = 9999,
            |catalog| catalog.windows.next.truncate(catalog.windows.next.len() - 1),
            |catalog| catalog.windows.classes[65] = 200,
            |catalog| catalog.windows.windows[0].class_map = 77,
            |catalog| catalog.windows.windows[0].base = u32::MAX,
            |catalog| catalog.class_runs[0].length = 0,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = catalog();
            change(&mut changed);
            assert!(Catalog::from_bytes(&changed.to_bytes()).is_err(), "change {number}");
        }
    }
}
