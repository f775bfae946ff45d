//! Plain text tables: words to the left, numbers to the right.

/// Rows of text under a heading.
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns. A head that begins with `>` names a column of numbers.
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; one cell a column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<_> = cells.into_iter().collect();
        assert_eq!(row.len(), self.heads.len(), "one cell a column");
        self.rows.push(row);
    }

    /// The table as text, with a line under the heading.
    pub(crate) fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([name(self.heads[column]).chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.heads.len()).map(width).collect();
        let line = |cells: Vec<&str>| {
            let cells = cells.iter().zip(&self.heads).zip(&widths).map(|((cell, head), width)| {
                if head.starts_with('>') {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let mut text = line(self.heads.iter().map(|head| name(head)).collect());
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        text.push_str(&"-".repeat(total));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&line(row.iter().map(String::as_str).collect()));
        }
        text
    }
}

fn name(head: &str) -> &str {
    head.strip_prefix('>').unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", ">bytes"]);
        table.row(["a".into(), "1".into()]);
        table.row(["longer".into(), "1000000".into()]);
        let expected = "name      bytes\n---------------\na             1\nlonger  1000000\n";
        assert_eq!(table.render(), expected);
    }
}
