"""Settings strings, one list per fresh process, applied in order until the first refusal."""

# fmt: off
# Tables: a line for each kind of value.
ROUNDUP = "roundup_power2_divisions"
KEYS = [
    "max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb",
    "garbage_collection_threshold",
    ROUNDUP, "expandable_segments", "release_lock_on_cudamalloc", "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse", "per_process_memory_fraction",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register", "pinned_use_hip_host_register", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_free_catch_all", "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb", "throw_on_cudamalloc_oom", "expandable_segments_reserve",
    "expandable_segments_reserve_by_class", "expandable_segments_handle_type", "backend",
]
BOOLEANS = ["expandable_segments", "release_lock_on_cudamalloc", "throw_on_cudamalloc_oom"]
SIZES = ["max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb"]
# Texts for strtoull and strtod: prefixes, signs, other bases, ranges.
INTEGERS = [
    "0", "1", "10", "11", "19", "20", "21", "100", "100abc", "100.5", "1e3", "0x40", "+40", "-1",
    "-18446744073709551615",
    "--1", "+-1", "+", "-", "abc", "18446744073709551615", "18446744073709551616",
    "99999999999999999999999", "17592186044416",
]
FRACTIONS = [
    "0", "0.5", "1", "1.0", "0.999", "1.5", "-0.1", ".5", "5e-1", "5e-1x", "0.5e", "0.5e+",
    "0.5.5", "0x0.8", "0x1p-1", "0x1p-2z",
    "0x", "0xg", "0x.p1", "nan", "-nan", "nan(1)", "inf", "INFINITY", "1e999", "-1e999", "1e-310",
    "1e-400", "0e999", "abc", "", "e5", ".", "+.5",
]

ONE = (
    ["", " ", ",", ",,", ":", "[", "]", "[]", "foo", "foo:1", "foo:", "foo:[", "foo:[1,2]", "a=b",
        "Max_split_size_mb:100"]
    + list(KEYS)
    + [f"{key}:" for key in KEYS]
    + [f"{key}:[" for key in KEYS]
    + [f"{key}:[]" for key in KEYS]
    + [f"{key}:1" for key in KEYS]
    + [f"{key}:True" for key in KEYS]
    + [f"{key}:{text}" for key in SIZES for text in INTEGERS]
    + [f"{key}:{text}" for key in ["garbage_collection_threshold",
        "per_process_memory_fraction"] for text in FRACTIONS]
    + [f"{key}:{text}" for key in BOOLEANS for text in ["False", "true", "1", "Truee", "T rue",
        "[True]", ":True"]]
    + [f"pinned_num_register_threads:{n}" for n in ["0", "3", "128", "256", "x"]]
    + [f"pinned_reserve_segment_size_mb:{n}" for n in ["0", "64", "x"]]
    + [f"pinned_max_round_threshold_mb:{n}" for n in ["0", "64", "-1", "x"]]
    + [f"pinned_max_cached_size_mb:{n}" for n in ["0", "64", "-1", "x"]]
    + [f"expandable_segments_reserve:{text}" for text in ["0.5", "40G", "40g", "0", "-1", "abc",
        "1e999", "nan"]]
    + [f"expandable_segments_reserve_by_class:{text}" for text in [
        "[a:0.5]", "[a:0.5,b:40G]", "[a:x,b:1]", "[a:0.5 b:1]", "[a:0.5", "[a:]", "[a]", "a:0.5",
        "[a:0.5]]"]]
    + [f"backend:{text}" for text in ["native", "cudaMallocAsync", "hipMallocAsync", "foo",
        "native,max_split_size_mb:100"]]
    # Scalars and lists of divisions.
    + [f"{ROUNDUP}:{text}" for text in [
        "0", "1", "2", "3", "4", "8", "4x", "-1", "9223372036854775808", "abc", "[256:1]",
        "[256:1,512:2,1024:4,>:8]",
        "[>:4]", "[>:4,64:2]", "[64:8,256:4,1024:4,>:1]", "[64:0]", "[64:3]", "[63:2]", "[0:2]",
        "[1:2]", "[65536:2,>:4]",
        "[32768:2,>:4]", "[16384:2,>:4]", "[9223372036854775808:2]", "[64:2 256:4]",
        "[64,2,256,4]", "[64:2:256:4]", "[64:2", "[64:2,", "[64:",
        "[64", "[x:2]", "[64:x]", "[-1:2]", "[:2]", "[>]", "[>:", "[64:2,>:x]", "[256:2,64:4]",
        "[64:2,64:4]", "[64:2]x", "[64:2]]", "[64x:2]",
        "[[64:2]]", "[64:2,]", "[,64:2]", "[>:2,>:4]", "[512:2,>:4,64:8,>:16]",
        "[64]2]", "[64]2],max_split_size_mb:64", "[64:2],max_split_size_mb:64"]]
    # Separators and spacing.
    + [
        "max_split_size_mb,100", "max_split_size_mb 100", "max_split_size_mb::100",
        "max_split_size_mb[100", "max_split_size_mb=100",
        "max_split_size_mb:100:expandable_segments:True",
        "max_split_size_mb:100]expandable_segments:True",
        "max_split_size_mb:100,,expandable_segments:True", "max_split_size_mb:100,",
        ",max_split_size_mb:100", "max_split_size_mb:100;",
        "max_split_size_mb:100 expandable_segments:True", " max_split_size_mb : 1 0 0 ",
        "max_split size_mb:100", "max_split_size_mb:100\t,\nexpandable_segments:True",
        "max_split_size_mb\v:\f100", "max_split_size_mb:\u00a0100",
        "expandable_segments,True,max_split_size_mb,64",
        "\"max_split_size_mb:100\"", "max_split_size_mb:\"100\"",
        "max_split_size_mb:100,max_split_size_mb:64",
        "expandable_segments:True,expandable_segments:False", "max_split_size_mb:100,foo:1",
        "foo:1,max_split_size_mb:1",
        "expandable_segments:true,max_split_size_mb:1",
        "release_lock_on_cudamalloc:true,max_split_size_mb:1",
        "garbage_collection_threshold:0.8,max_split_size_mb:128,roundup_power2_divisions:4",
        "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6",
        "release_lock_on_cudamalloc:[True],max_split_size_mb:64",
        "pinned_use_background_threads:True,expandable_segments:True",
        "release_lock_on_cudamalloc:True:max_split_size_mb:64",
    ]
    # large_segment_size_mb is read before everything else and moves the limits of the others.
    + [
        "large_segment_size_mb:40,max_split_size_mb:30",
        "max_split_size_mb:30,large_segment_size_mb:40",
        "large_segment_size_mb:40,max_split_size_mb:40",
        "large_segment_size_mb:12,max_split_size_mb:15",
        "max_split_size_mb:15,large_segment_size_mb:12",
        "max_non_split_rounding_mb:15,large_segment_size_mb:12",
        "large_segment_size_mb:12,max_non_split_rounding_mb:12",
        "large_segment_size_mb:40,large_segment_size_mb:60", "foo:1,large_segment_size_mb:5",
        "large_segment_size_mb:5,foo:1", "expandable_segments:true,large_segment_size_mb:5",
        "max_split_size_mb:large_segment_size_mb:40",
        "foo:large_segment_size_mb:40", "foo,large_segment_size_mb:5",
        "max_split_size_mb,large_segment_size_mb:5",
        "roundup_power2_divisions:[64:2,large_segment_size_mb:5",
        "roundup_power2_divisions:[large_segment_size_mb:40]", "large_segment_size_mb:40,foo",
        "large_segment_size_mb:40,max_non_split_rounding_mb:50,large_segment_size_mb:60",
        "large_segment_size_mb,40", "large_segment_size_mb:40:50",
        "max_split_size_mb:100,large_segment_size_mb",
    ]
)

SEQUENCES = [
    ["max_split_size_mb:100", ""],
    ["max_split_size_mb:100", "expandable_segments:True"],
    ["roundup_power2_divisions:8", "garbage_collection_threshold:0.5"],
    ["garbage_collection_threshold:0.5", "roundup_power2_divisions:[64:2]"],
    ["roundup_power2_divisions:[64:2]", "roundup_power2_divisions:[>:4]"],
    ["large_segment_size_mb:40", "max_split_size_mb:30"],
    ["large_segment_size_mb:40", "max_split_size_mb:64"],
    ["large_segment_size_mb:40", ""],
    ["large_segment_size_mb:40", "max_non_split_rounding_mb:30"],
    ["max_non_split_rounding_mb:64", ""],
    ["max_non_split_rounding_mb:64", "large_segment_size_mb:12"],
    ["large_segment_size_mb:40", "large_segment_size_mb:12,max_split_size_mb:12"],
    ["expandable_segments:True", "max_split_size_mb:100", "expandable_segments:False"],
    ["expandable_segments:True,release_lock_on_cudamalloc:True", ""],
    ["graph_capture_record_stream_reuse:True", ""],
    ["per_process_memory_fraction:0.5", "max_split_size_mb:64"],
    ["per_process_memory_fraction:0.5", "per_process_memory_fraction:1"],
    ["throw_on_cudamalloc_oom:True", "expandable_segments:True"],
]

CASES = list(dict.fromkeys((text,) for text in ONE)) + [tuple(texts) for texts in SEQUENCES]

# In the environment of a new process; PyTorch reads them once and later than it is imported.
ENVIRONMENT = [
    "", "max_split_size_mb:100", "max_split_size_mb:5", "max_split_size_mb:abc", "foo", "foo:1",
    "garbage_collection_threshold:1e999", "roundup_power2_divisions:[64:2",
]
