//! The modules that hold memory at the peak, as a short table.

use std::fmt::Write;

use replay::modules::{ModuleMemory, OUTSIDE};

use crate::bytes;

/// Rows of the table that name modules.
const ROWS: usize = 8;

/// The largest modules, then the others together, then memory outside any.
pub(super) fn table(modules: &[ModuleMemory]) -> String {
    let total: u64 = modules.iter().map(|row| row.allocated_bytes).sum();
    let mut text = format!("largest modules at the peak ({})\n", bytes::show(total));
    let (outside, named): (Vec<_>, Vec<_>) = modules.iter().partition(|row| row.module == OUTSIDE);
    let shown = if named.len() > ROWS + 1 { ROWS } else { named.len() };
    let mut line = |size_bytes: u64, words: &str| {
        let share = 100.0 * size_bytes as f64 / total.max(1) as f64;
        let _ = writeln!(text, "  {:>11}  {share:>5.1} %  {words}", bytes::show(size_bytes));
    };
    for row in &named[..shown] {
        line(row.allocated_bytes, &words(row));
    }
    if shown < named.len() {
        let others = &named[shown..];
        let size_bytes = others.iter().map(|row| row.allocated_bytes).sum();
        line(size_bytes, &format!("{} others", others.len()));
    }
    for row in outside {
        line(row.allocated_bytes, &words(row));
    }
    text
}

/// The module, and what most of its bytes are.
fn words(row: &ModuleMemory) -> String {
    let largest = row.contents.iter().max_by_key(|(_, content)| content.allocated_bytes);
    match largest {
        Some((content, memory)) if row.contents.len() > 1 => {
            format!("{} ({} {content})", row.module, bytes::show(memory.allocated_bytes))
        }
        Some((content, _)) if *content != "other" => format!("{} ({content})", row.module),
        _ => row.module.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::modules::ContentMemory;

    fn row(module: &str, contents: &[(&'static str, u64)]) -> ModuleMemory {
        let allocated_bytes = contents.iter().map(|(_, size_bytes)| size_bytes).sum();
        let (module, requested_bytes, blocks) = (module.to_owned(), allocated_bytes, 1);
        let content = |bytes| ContentMemory { allocated_bytes: bytes, requested_bytes: bytes };
        let contents = contents.iter().map(|(name, bytes)| (*name, content(*bytes))).collect();
        ModuleMemory { module, allocated_bytes, requested_bytes, blocks, contents }
    }

    #[test]
    fn the_rows_add_up() {
        let mut modules = vec![
            row("layers.0.mlp", &[("parameter", 1 << 20), ("kept", 5 << 20)]),
            row(OUTSIDE, &[("other", 1 << 20)]),
        ];
        modules.extend((0..10).map(|at| row(&format!("layers.{at}"), &[("kept", 1 << 20)])));
        let text = table(&modules);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "largest modules at the peak (17.00 MiB)");
        assert_eq!(lines[1], "     6.00 MiB   35.3 %  layers.0.mlp (5.00 MiB kept)");
        assert_eq!(lines[2], "     1.00 MiB    5.9 %  layers.0 (kept)");
        assert_eq!(lines[9], "     3.00 MiB   17.6 %  3 others");
        assert_eq!(lines[10], "     1.00 MiB    5.9 %  outside any module");
    }
}
