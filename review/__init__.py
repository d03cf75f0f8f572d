"""Says once a week whether GPUs should move between prefill and decode, and what that rests on."""
