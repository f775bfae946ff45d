"""vramtape in other people's training loops, a module each; nothing of theirs is imported before it is used.

``integrations.huggingface.MemoryCallback`` for the ``Trainer`` of transformers,
``integrations.lightning.MemoryCallback`` for Lightning's.
"""
