import torch

torch.cuda.set_device(0)
model = load()
run(model)
del model
print('done')
torch.cuda.empty_cache()
