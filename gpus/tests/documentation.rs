//! docs/gpus.md: its tables are the data, and its example is a GPU. `UPDATE_GOLDEN=1` writes the tables.

use std::path::PathBuf;
use std::{env, fs};

use gpus::{Capability, Context, Gpu, all};

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/gpus.md")
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn number(capability: &Capability) -> String {
    format!("{}.{}", capability.major, capability.minor)
}

/// One GPU of each compute capability, in order.
fn capabilities() -> Vec<&'static Gpu> {
    let mut one_each: Vec<&Gpu> = all().iter().collect();
    one_each.sort_by_key(|gpu| (gpu.capability.major, gpu.capability.minor));
    one_each.dedup_by_key(|gpu| gpu.capability);
    one_each
}

fn gpus_table() -> String {
    let head = "| name | name that the driver reports | memory | compute capability | SMs | L2 | clock \
                | memory clock, bus |\n|---|---|---|---|---|---|---|---|\n";
    all().iter().fold(head.to_owned(), |text, gpu| {
        let l2_mib = gpu.l2_bytes as f64 / f64::from(1 << 20);
        text + &format!(
            "| `{}` | {} | {:.2} GiB | {} | {} | {l2_mib} MiB | {} MHz | {} MHz, {} bits |\n",
            gpu.name,
            gpu.product,
            gib(gpu.memory_bytes),
            number(&gpu.capability),
            gpu.multiprocessors,
            gpu.clock_mhz,
            gpu.memory_clock_mhz,
            gpu.memory_bus_bits
        )
    })
}

fn capabilities_table() -> String {
    let head = "| compute capability | threads | blocks | registers | shared memory | of a block, opted in \
                | reserved for a block |\n|---|---|---|---|---|---|---|\n";
    capabilities().into_iter().fold(head.to_owned(), |text, gpu| {
        let limits = &gpu.capability;
        text + &format!(
            "| {} | {} | {} | {} | {} KiB | {} KiB | {} KiB |\n",
            number(limits),
            limits.max_threads,
            limits.max_blocks,
            limits.registers,
            limits.shared_bytes >> 10,
            limits.shared_per_block_optin_bytes >> 10,
            limits.shared_reserved_bytes >> 10
        )
    })
}

fn contexts_table() -> String {
    let head = "| compute capability | expected | range | source |\n|---|---|---|---|\n".to_owned();
    capabilities().into_iter().fold(head, |text, gpu| {
        let Context { lower_bytes, expected_bytes, upper_bytes, source } = &gpu.context;
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        text + &format!(
            "| {} | {:.0} MiB | {:.0} to {:.0} MiB | {source} |\n",
            number(&gpu.capability),
            mib(expected_bytes),
            mib(lower_bytes),
            mib(upper_bytes)
        )
    })
}

#[test]
fn the_tables_are_the_data() {
    let before = fs::read_to_string(page()).unwrap();
    let mut after = before.clone();
    let tables = [
        ("gpus", gpus_table()),
        ("capabilities", capabilities_table()),
        ("contexts", contexts_table()),
    ];
    for (name, table) in tables {
        let mark = format!("<!-- {name}: written by `UPDATE_GOLDEN=1 cargo test -p gpus` -->\n");
        let start = after.find(&mark).expect("the table's mark") + mark.len();
        let length = after[start..].find("<!-- end -->").expect("the table's end");
        after.replace_range(start..start + length, &table);
    }
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(page(), &after).unwrap();
    } else {
        assert_eq!(before, after, "run UPDATE_GOLDEN=1 cargo test -p gpus");
    }
}

#[test]
fn the_example_is_a_gpu() {
    let text = fs::read_to_string(page()).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let gpu = Gpu::from_toml("example.toml", example).unwrap();
    assert_eq!((gpu.product.as_str(), gpu.context.expected_bytes), ("Lab GPU", 450_000_000));
}
