"""Pieces of code whose prints, errors and warnings test_nn_oracle.py compares with PyTorch."""

# ruff: noqa: E501

from __future__ import annotations

TEXTS = [
    part.strip()
    for part in r"""
print(nn.Parameter(torch.ones(2)))
---
p=nn.Parameter(); print(p.shape, p.requires_grad)
---
print(isinstance(nn.Parameter(torch.ones(1)), torch.Tensor), isinstance(torch.ones(1), nn.Parameter))
---
import copy; p=nn.Parameter(torch.ones(2), requires_grad=False); q=copy.deepcopy(p); print(type(q).__name__, q.requires_grad, q.data_ptr()!=p.data_ptr())
---
import pickle; p=nn.Parameter(torch.ones(2)); q=pickle.loads(pickle.dumps(p)); print(q)
---
m=nn.Module(); m(1)
---
nn.Module(1)
---
nn.Module(a=1)
---
m=nn.Linear(2,3); m.weight=torch.ones(1)
---
m=nn.Linear(2,3); m.weight=3
---
m=nn.Linear(2,3); m.weight=None; print(list(m.state_dict()))
---
class M(nn.Module):
    def __init__(self): self.a=nn.Parameter(torch.ones(1))
M()
---
class M(nn.Module):
    def __init__(self): self.a=nn.Linear(1,1)
M()
---
class M(nn.Module):
    def __init__(self): self.register_buffer('a',torch.ones(1))
M()
---
m=nn.Module(); m.a=nn.Linear(1,1); m.a=3
---
m=nn.Module(); m.register_buffer('b',torch.ones(2)); m.b=3
---
m=nn.Module(); m.register_buffer('b',3)
---
m=nn.Module(); m.register_buffer('b.c',torch.ones(1))
---
m=nn.Module(); m.register_buffer('',torch.ones(1))
---
m=nn.Module(); m.register_buffer(3,torch.ones(1))
---
m=nn.Linear(1,1); m.register_buffer('weight',torch.ones(1))
---
m=nn.Module(); m.register_parameter('a.b',None)
---
m=nn.Module(); m.register_parameter('',None)
---
m=nn.Module(); m.register_parameter(3,None)
---
m=nn.Module(); m.register_parameter('a',3)
---
m=nn.Module(); m.register_parameter('forward',None)
---
m=nn.Module(); m.register_parameter('a',torch.ones(2))
---
m=nn.Module(); m.add_module('a.b',None)
---
m=nn.Module(); m.add_module('',None)
---
m=nn.Module(); m.add_module(3,None)
---
m=nn.Module(); m.add_module('a',3)
---
m=nn.Module(); m.add_module('forward',nn.Linear(1,1))
---
m=nn.Module(); m.nope
---
m=nn.Linear(1,1); m.get_submodule('x.y')
---
m=nn.Linear(1,1); m.get_submodule('weight')
---
m=nn.Sequential(nn.Linear(1,1)); print(m.get_submodule('0') is m[0], m.get_parameter('0.weight') is m[0].weight); m.get_parameter('0.x')
---
m=nn.Sequential(nn.Linear(1,1)); m.get_parameter('0.in_features')
---
m=nn.BatchNorm1d(2); print(m.get_buffer('running_mean')); m.get_buffer('weight')
---
m=nn.Linear(2,3); m.load_state_dict({})
---
m=nn.Linear(2,3); m.load_state_dict({'weight':torch.ones(3,2),'bias':torch.ones(3),'x':torch.ones(1),'y.z':torch.ones(1)})
---
m=nn.Linear(2,3); m.load_state_dict({'weight':torch.ones(3,3),'bias':torch.ones(2)})
---
m=nn.Linear(2,3); m.load_state_dict({'weight':3,'bias':torch.ones(3)})
---
m=nn.Linear(2,3); m.load_state_dict(3)
---
m=nn.Linear(2,3); print(m.load_state_dict({'weight':torch.ones(3,2),'bias':torch.ones(3)}))
---
m=nn.Linear(2,3); print(m.load_state_dict({'weight':torch.ones(3,2)}, strict=False))
---
m=nn.Sequential(nn.Linear(2,3),nn.BatchNorm1d(3)); print(m.state_dict()._metadata); print([k for k in m.state_dict()])
---
m=nn.Sequential(nn.Linear(2,3)); sd={k:torch.ones_like(v) for k,v in m.state_dict().items()}; w=m[0].weight; m.load_state_dict(sd, assign=True); print(w is m[0].weight, type(m[0].weight).__name__, m[0].weight.requires_grad)
---
m=nn.Linear(2,3); print(m.state_dict(prefix='a.').keys(), m.state_dict(keep_vars=True)['weight'] is m.weight)
---
m=nn.Linear(2,3); m.state_dict({}, 'p.')
---
class E(nn.Module):
    def get_extra_state(self): return {'a':1}
    def set_extra_state(self,s): print('set',s)
m=nn.Sequential(E()); sd=m.state_dict(); print(sd); m.load_state_dict(sd); m.load_state_dict({})
---
m=nn.Linear(2,3); m.to(torch.int32)
---
m=nn.Linear(2,3).to(torch.float64); print(m.weight.dtype, m.weight.is_leaf); m.half(); print(m.weight.dtype); m.float(); m.bfloat16(); print(m.bias.dtype, type(m.bias).__name__)
---
m=nn.BatchNorm1d(2).double(); print(m.num_batches_tracked.dtype, m.running_mean.dtype)
---
m=nn.Linear(2,3); w=m.weight; m.double(); print(m.weight is w, w.dtype)
---
m=nn.Linear(2,3); m.train('x')
---
m=nn.Sequential(nn.Dropout()); m.eval(); print(m.training, m[0].training); m.train(); print(m[0].training)
---
m=nn.Linear(2,3); print(m.requires_grad_(False).weight.requires_grad)
---
m=nn.Linear(1,1); m.weight.grad=torch.ones(1,1); g=m.weight.grad; m.zero_grad(set_to_none=False); print(m.weight.grad is g, g); m.zero_grad(); print(m.weight.grad)
---
class N(nn.Module):
    def __init__(self):
        super().__init__(); self.a=nn.Linear(2,2); self.b=self.a; self.c=nn.ModuleList([nn.Linear(1,1),nn.Linear(1,1),nn.ReLU()]); self.d=nn.ModuleDict({'x':nn.Linear(1,2)}); self.p=nn.Parameter(torch.ones(1))
n=N(); print(n); print([k for k,_ in n.named_parameters()]); print([k for k,_ in n.named_modules()]); print([k for k,_ in n.named_parameters(remove_duplicate=False)]); print([k for k,_ in n.named_modules(remove_duplicate=False)]); print([k for k,_ in n.named_children()]); print([k for k,_ in n.named_parameters(recurse=False)], list(n.state_dict()), sum(1 for _ in n.modules(remove_duplicate=False)), [k for k,_ in n.named_buffers()], [k for k,_ in n.named_parameters(prefix='q')])
---
n=nn.Linear(1,1); del n.bias; print(n);
---
n=nn.Linear(1,1); del n.bias; n.bias
---
n=nn.Linear(1,1); del n.zzz
---
m=nn.Module(); m.b=nn.Buffer(torch.ones(2), persistent=False); m.c=nn.Buffer(torch.zeros(1)); print(list(m.state_dict()), [k for k,_ in m.named_buffers()], isinstance(m.b, nn.Buffer))
---
m=nn.Module(); m.register_buffer('x', None); print(m.x, list(m.state_dict())); m.x=torch.ones(1); print(list(m.state_dict()))
---
m=nn.Module(); x=torch.ones(2, requires_grad=True)*2; m.w=nn.Parameter(torch.ones(1)); m.register_parameter('q', x)
---
s=nn.Sequential(nn.ReLU(),nn.Tanh(),nn.Sigmoid()); print(s[1], s[-1], s[:2], len(s)); del s[1]; print(s); s.append(nn.GELU()); s.insert(0,nn.ELU()); print(s); s.pop(0); s.extend([nn.SELU()]); print(s+nn.Sequential(nn.ReLU())); print(s*2); s[9]
---
s=nn.Sequential(nn.ReLU()); s+3
---
s=nn.Sequential(nn.ReLU()); s*0
---
l=nn.ModuleList([nn.ReLU()]*3+[nn.Tanh()]); print(l, l[1:], l[-1], len(l)); l.append(nn.ELU()); l.insert(1,nn.GELU()); l+=[nn.SELU()]; del l[0]; print(l); print(l+[nn.ReLU()]); l.pop(-1); l[7]
---
l=nn.ModuleList(); l.extend(3)
---
l=nn.ModuleList([nn.ReLU()]); l(1)
---
d=nn.ModuleDict({'a':nn.ReLU(),'b':nn.Tanh()}); print(d, 'a' in d, len(d), list(d.keys()), list(d.items())); d.update([('c',nn.ELU())]); print(d.pop('a'), d); d['z']
---
d=nn.ModuleDict(3)
---
d=nn.ModuleDict([('a',)])
---
p=nn.ParameterList([torch.ones(2),3,nn.Parameter(torch.zeros(2,3))]); print(p, len(p), p[0], p[1], p[-1].shape, [k for k,_ in p.named_parameters()]); p.append(torch.ones(1)); p.extend([torch.ones(1)]); print(len(p), p[1:3]); p[9]
---
p=nn.ParameterList(3)
---
p=nn.ParameterDict({'a':torch.ones(2,3),'b':5}); print(p, list(p.keys()), p['b'], 'a' in p, len(p)); p.update({'c':torch.ones(1)}); print(p.pop('a').shape, p.popitem()[0], p.get('zz', 4), p.setdefault('q', 7)); p['nope']
---
p=nn.ParameterDict(); p[3]=1
---
m=nn.Linear(2,2); m.register_forward_hook(lambda *a: None); print(len(m._forward_hooks));
---
import copy; m=nn.Linear(2,2); n=copy.deepcopy(m); print(type(n), (n.weight==m.weight).all(), n.weight is m.weight)
---
import pickle; m=nn.Sequential(nn.Linear(2,2)); n=pickle.loads(pickle.dumps(m)); print(n, bool((n[0].weight==m[0].weight).all()))
---
m=nn.Linear(2,2); r=[]; m.apply(lambda x: r.append(type(x).__name__)); print(r)
---
nn.Dropout(2)
---
nn.Conv2d(3,4,3,groups=2)
---
nn.Conv2d(4,4,3,stride=2,padding='same')
---
print(nn.Conv2d(4,4,3,groups=2,padding='same',dilation=2,bias=False,padding_mode='circular'), nn.ConvTranspose2d(2,4,3,output_padding=1,stride=2), nn.Conv1d(1,2,3).weight.shape, nn.ConvTranspose3d(4,2,3,groups=2).weight.shape)
---
nn.GroupNorm(3,4)
---
print(nn.BatchNorm2d(3), nn.InstanceNorm2d(3), nn.GroupNorm(2,4), nn.LayerNorm(3), nn.RMSNorm(3), nn.LocalResponseNorm(2), nn.CrossMapLRN2d(2))
---
print(nn.Embedding(3,4,padding_idx=-1,max_norm=1.,scale_grad_by_freq=True,sparse=True), nn.EmbeddingBag(3,2,padding_idx=1))
---
nn.Embedding(3,4,padding_idx=5)
---
nn.Embedding.from_pretrained(torch.ones(3))
---
nn.MultiheadAttention(5,2)
---
nn.MultiheadAttention(0,2)
---
print(nn.LSTM(2,3,2,bidirectional=True,dropout=0.1,proj_size=2,batch_first=True), nn.GRU(2,3,bias=False), nn.RNN(2,3,nonlinearity='relu'), nn.LSTMCell(2,3), nn.RNNCell(2,3,nonlinearity='relu'), nn.GRUCell(2,3,False)); print([k for k,_ in nn.LSTM(2,3,2,bidirectional=True,proj_size=1).named_parameters()])
---
nn.LSTM(2,3,dropout=0.5)
---
nn.GRU(2,3,proj_size=1)
---
nn.RNN(2,3,nonlinearity='x')
---
nn.LSTM(2.5,3)
---
nn.LSTM(2,0)
---
nn.LSTM(2,3,proj_size=3)
---
nn.LSTM(2,3,dropout=2)
---
nn.CrossEntropyLoss(reduce=False).reduction; nn.MSELoss(size_average=False)
---
nn.TripletMarginLoss(margin=-1)
---
nn.MultiMarginLoss(p=3)
---
nn.Unflatten(1, 3)
---
nn.Unflatten(1, (3,'a'))
---
print(nn.Transformer(4,2,1,1,8,batch_first=True))
---
nn.TransformerEncoderLayer(4,2,activation='x')
---
nn.Hardtanh(1,0)
---
nn.init.calculate_gain('x')
---
nn.init.calculate_gain('leaky_relu','x')
---
nn.init.kaiming_uniform_(torch.ones(2))
---
nn.init.kaiming_uniform_(torch.ones(2,2),mode='x')
---
print(nn.init.eye_(torch.ones(2,3)), nn.init.dirac_(torch.ones(4,2,3),2), nn.init.zeros_(torch.ones(1)), nn.init.constant_(torch.ones(1),3), nn.init.ones_(torch.zeros(1))); nn.init.dirac_(torch.ones(2))
---
nn.init.eye_(torch.ones(2))
---
nn.init.orthogonal_(torch.ones(2))
---
nn.init.sparse_(torch.ones(2),.1)
---
nn.init.uniform(torch.ones(2))
---
nn.Bilinear(0,1,1)
---
nn.AdaptiveLogSoftmaxWithLoss(4,10,[5,3])
---
nn.FractionalMaxPool2d(2)
---
nn.FractionalMaxPool2d(2,output_ratio=2)
---
m=nn.Linear(1,1); m.register_full_backward_hook(lambda *a: None); m.register_backward_hook(lambda *a: None)
---
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x,y=None,k=1): return x*s.w*k
m=L(); log=[]
h=m.register_forward_pre_hook(lambda mod,a: log.append(('pre',[t.tolist() for t in a])))
h2=m.register_forward_hook(lambda mod,a,o: log.append(('fwd',o.tolist())))
h3=m.register_forward_pre_hook(lambda mod,a,k: (a,{'k':5}), with_kwargs=True, prepend=True)
h4=m.register_forward_hook(lambda mod,a,k,o: o+k['k'], with_kwargs=True)
print(m(torch.ones(2)), log); 
for x in (h,h2,h3,h4): x.remove()
print(m(torch.ones(2)), len(m._forward_hooks), len(m._forward_hooks_with_kwargs))
---
class L(nn.Module):
    def forward(s,x): return x
m=L(); m.register_forward_pre_hook(lambda mod,a,k: 3, with_kwargs=True); m(torch.ones(1))
---
class L(nn.Module):
    def forward(s,x): return x
m=L(); m.register_forward_pre_hook(lambda mod,a: a[0]*2); print(m(torch.ones(1)))
---
class L(nn.Module):
    def forward(s,x): raise ValueError('boom')
m=L(); log=[]
m.register_forward_hook(lambda mod,a,o: log.append(('x',o)), always_call=True)
m.register_forward_hook(lambda mod,a,o: 1/0, always_call=True)
try: m(torch.ones(1))
except ValueError as e: print(e, log)
---
m=nn.Sequential(nn.Identity()); log=[]
m.register_full_backward_hook(lambda mod,gi,go: log.append((type(mod).__name__,gi,go)))
x=torch.ones(2,requires_grad=True); m(x*2).sum().backward(); print(log, x.grad)
---
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x,y): return x*s.w, y*2, 5
m=L(); log=[]
h=m.register_full_backward_hook(lambda mod,gi,go: log.append((gi,go)))
x=torch.ones(2,requires_grad=True); y=torch.ones(2)
a,b,c=m(x,y); (a.sum()).backward(); print(log, x.grad, m.w.grad, b.requires_grad, c)
---
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x): return x*s.w
m=L(); log=[]
m.register_full_backward_hook(lambda mod,gi,go: (gi[0]*10,))
m.register_full_backward_hook(lambda mod,gi,go: log.append(gi))
m.register_full_backward_pre_hook(lambda mod,go: (go[0]*2,))
x=torch.ones(2,requires_grad=True); m(x).sum().backward(); print(log,x.grad,m.w.grad)
---
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x): return x*s.w
m=L(); log=[]
m.register_full_backward_hook(lambda mod,gi,go: log.append((gi,go)))
m(torch.ones(2)).sum().backward(); print(log, m.w.grad)
---
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x): return x*s.w
m=L()
m.register_full_backward_hook(lambda mod,gi,go: (torch.ones(2),))
m(torch.ones(2)).sum().backward()
---
class L(nn.Module):
    def forward(s,x): return x*2
m=L()
m.register_full_backward_hook(lambda mod,gi,go: (gi[0],gi[0]))
m(torch.ones(2,requires_grad=True)).sum().backward()
---
class L(nn.Module):
    def forward(s,x): return {'a':x*2}
m=L()
m.register_full_backward_hook(lambda mod,gi,go: print('hook'))
m(torch.ones(2,requires_grad=True))['a'].sum().backward()
---
class L(nn.Module):
    def forward(s,x): s.aux=x*3; return x.detach()*torch.ones(2,requires_grad=True)
m=L()
m.register_full_backward_hook(lambda mod,gi,go: print('hook'))
m(torch.ones(2,requires_grad=True)); m.aux.sum().backward()
---
class L(nn.Module):
    def forward(s,x): return x*2+1
m=L(); log=[]
m.register_backward_hook(lambda mod,gi,go: log.append((gi,go)))
m(torch.ones(2,requires_grad=True)).sum().backward(); print(log)
---
from torch.nn.modules.module import register_module_full_backward_hook as r, register_module_forward_hook as f, register_module_forward_pre_hook as fp, register_module_full_backward_pre_hook as bp
class L(nn.Module):
    def __init__(s): super().__init__(); s.w=nn.Parameter(torch.full((2,),3.0))
    def forward(s,x): return x*s.w
m=nn.Sequential(L(),nn.Identity()); log=[]
hs=[r(lambda mod,gi,go: log.append(('b',type(mod).__name__,gi,go))), f(lambda mod,a,o: log.append(('f',type(mod).__name__))), fp(lambda mod,a: log.append(('p',type(mod).__name__))), bp(lambda mod,go: log.append(('bp',type(mod).__name__)))]
m(torch.ones(2,requires_grad=True)).sum().backward(); print(log)
for h in hs: h.remove()
log.clear(); m(torch.ones(2,requires_grad=True)).sum().backward(); print(log)
---
from torch.nn.modules.module import register_module_parameter_registration_hook as r, register_module_buffer_registration_hook as b, register_module_module_registration_hook as mo
log=[]
hs=[r(lambda m,n,p: log.append(('p',n))), b(lambda m,n,p: log.append(('b',n))), mo(lambda m,n,p: log.append(('m',n)))]
nn.Sequential(nn.BatchNorm1d(2))
for h in hs: h.remove()
nn.BatchNorm1d(2); print(log)
---
m=nn.Sequential(nn.BatchNorm1d(2)); log=[]
m.register_state_dict_post_hook(lambda mod,sd,p,meta: sd.pop('0.bias') and None)
m.register_state_dict_pre_hook(lambda mod,p,k: log.append((p,k)))
sd=m.state_dict(); print(list(sd), log)
h=m.register_load_state_dict_post_hook(lambda mod,inc: inc.missing_keys.clear()); print(m.load_state_dict(sd))
m.register_load_state_dict_pre_hook(lambda mod,sd,prefix,*a: sd.update({prefix+'0.bias':torch.ones(2)})); h.remove(); print(m.load_state_dict(sd), m[0].bias)
---
m=nn.Linear(1,1); m.register_state_dict_post_hook(lambda *a: 3); m.state_dict()
---
m=nn.Linear(1,1); m.register_load_state_dict_post_hook(lambda *a: 3); m.load_state_dict(m.state_dict())
---
ps=[torch.ones(3,requires_grad=True),torch.ones(2,2,requires_grad=True)]
for p in ps: p.grad=torch.full_like(p,3.)
print(nn.utils.clip_grad_norm_(ps,1.), ps[0].grad, nn.utils.clip_grad_norm_(ps,100.,norm_type=float('inf')), ps[1].grad, nn.utils.get_total_norm([p.grad for p in ps],1.)); nn.utils.clip_grad_value_(ps,.1); print(ps[0].grad)
---
p=torch.ones(1,requires_grad=True); p.grad=torch.tensor([float('nan')]); nn.utils.clip_grad_norm_(p,1.,error_if_nonfinite=True)
---
print(nn.utils.clip_grad_norm_([],1.))
---
print(nn.utils.clip_grad_norm_([torch.ones(1)],1.))
---
l=nn.Linear(2,3); v=nn.utils.parameters_to_vector(l.parameters()); print(v.shape); nn.utils.vector_to_parameters(torch.arange(9.), l.parameters()); print(l.weight, l.bias)
---
nn.utils.vector_to_parameters(3, [])
---
from torch.nn.utils.rnn import *
a=pack_padded_sequence(torch.arange(24.).reshape(4,3,2),[4,2,1]); print(a.data.shape,a.batch_sizes,a.sorted_indices); print(pad_packed_sequence(a)); print(pad_packed_sequence(a,batch_first=True,padding_value=-1,total_length=5))
---
from torch.nn.utils.rnn import *
a=pack_padded_sequence(torch.arange(24.).reshape(4,3,2),torch.tensor([1,4,2]),enforce_sorted=False); print(a); print(pad_packed_sequence(a))
---
from torch.nn.utils.rnn import *
pack_padded_sequence(torch.ones(4,3,2),[1,4,2])
---
from torch.nn.utils.rnn import *
pack_padded_sequence(torch.ones(4,3,2),[4,2,0])
---
from torch.nn.utils.rnn import *
pack_padded_sequence(torch.ones(4,3,2),[4,2])
---
from torch.nn.utils.rnn import *
s=[torch.ones(2,1),torch.zeros(3,1)]; print(pad_sequence(s),pad_sequence(s,True,5.,'left').shape,pad_sequence(s,True,5.,'left')); print(pack_sequence(s,enforce_sorted=False)); print(unpack_sequence(pack_sequence(s,enforce_sorted=False))); print(unpad_sequence(pad_sequence(s),torch.tensor([2,3])))
---
from torch.nn.utils.rnn import *
pad_sequence(3)
---
from torch.nn.utils.rnn import *
s=pack_sequence([torch.ones(2,1),torch.zeros(1,1)]); t=s.to(torch.float64); print(t.data.dtype, type(t).__name__, s.is_cuda, s.to('cpu') is s, t.float().data.dtype)
---
l=nn.utils.weight_norm(nn.Linear(2,3)); print([n for n,_ in l.named_parameters()], l.weight_g.shape, l); l(torch.ones(1,2)).sum().backward(); print(l.weight_v.grad is not None); nn.utils.remove_weight_norm(l); print([n for n,_ in l.named_parameters()]); nn.utils.remove_weight_norm(l)
---
class S(nn.Module):
    def forward(s,x): return x.triu()+x.triu(1).T
    def right_inverse(s,x): return x.triu()
class D(nn.Module):
    def forward(s,x): return x*2
    def right_inverse(s,x): return x/2
l=nn.Linear(2,2); P=nn.utils.parametrize
P.register_parametrization(l,'weight',S()); print(P.is_parametrized(l),P.is_parametrized(l,'bias'),type(l).__name__,P.type_before_parametrizations(l).__name__); l.weight=torch.tensor([[1.,2],[2,3]]); print(l.weight); P.register_parametrization(l,'weight',D()); print(l.weight); l.weight=torch.ones(2,2); print(l.parametrizations.weight.original, l.weight); print(l)
with P.cached(): print(l.weight is l.weight)
import copy; m=copy.deepcopy(l); print(type(m).__name__, m.weight, m.parametrizations.weight.original is l.parametrizations.weight.original)
n=nn.Linear(2,2); P.transfer_parametrizations_and_params(l,n); print(n.weight)
P.remove_parametrizations(l,'weight',leave_parametrized=False); print(l.weight, type(l).__name__)
---
class B(nn.Module):
    def forward(s,x): return x[0]
nn.utils.parametrize.register_parametrization(nn.Linear(2,2),'weight',B())
---
class B(nn.Module):
    def forward(s,x): return x.double()
nn.utils.parametrize.register_parametrization(nn.Linear(2,2),'weight',B())
---
nn.utils.parametrize.register_parametrization(nn.Linear(2,2),'nope',nn.Identity())
---
l=nn.utils.parametrizations.orthogonal(nn.Linear(4,4)); w=l.weight; print(torch.allclose(w@w.T,torch.eye(4),atol=1e-4)); l.weight=torch.eye(4); print(torch.allclose(l.weight,torch.eye(4),atol=1e-5));
---
l=nn.utils.parametrizations.orthogonal(nn.Linear(4,3)); w=l.weight; print(torch.allclose(w@w.T,torch.eye(3),atol=1e-4));
---
l=nn.utils.parametrizations.orthogonal(nn.Linear(3,4),orthogonal_map='cayley'); w=l.weight; print(torch.allclose(w.T@w,torch.eye(3),atol=1e-4)); print(l)
---
nn.utils.parametrizations.orthogonal(nn.Linear(3,4),orthogonal_map='x')
---
l=nn.utils.parametrizations.spectral_norm(nn.Linear(4,3),n_power_iterations=2000); print(abs(float(torch.linalg.svdvals(l.weight)[0])-1)<1e-3, list(l.state_dict())); print(l)
---
l=nn.utils.spectral_norm(nn.Linear(4,3),n_power_iterations=2000); l(torch.ones(1,4)); print(abs(float(torch.linalg.svdvals(l.weight)[0])-1)<1e-3, list(l.state_dict())); nn.utils.remove_spectral_norm(l); print(l)
---
m=nn.utils.skip_init(nn.Linear,3,2); print(m, type(m))
---
nn.utils.skip_init(nn.ReLU)
---
l=nn.LazyLinear(3); print(l, l.weight); print(l(torch.ones(2,5)).shape, l, type(l).__name__, l.weight.shape)
---
l=nn.LazyConv2d(3,2); print(l); print(l(torch.ones(1,4,5,5)).shape, l, type(l).__name__, l.weight.shape, l.bias.shape)
---
l=nn.LazyConvTranspose1d(4,2,groups=2); print(l(torch.ones(1,4,5)).shape, l, type(l).__name__, l.weight.shape)
---
l=nn.LazyBatchNorm2d(); print(l); print(l(torch.ones(2,4,5,5)).shape, l, type(l).__name__, l.running_mean)
---
l=nn.LazyLinear(3); l.weight.shape
---
l=nn.LazyLinear(3); l.load_state_dict(nn.Linear(5,3).state_dict()); print(l.weight.shape)
---
m=nn.Linear(2,2); d=nn.DataParallel(m); x=torch.ones(3,2); print((d(x)==m(x)).all(), list(d.state_dict()), d)
---
m=nn.Linear(2,2).eval(); import copy
a=optim.swa_utils.AveragedModel(m); a.update_parameters(m); print(a.n_averaged, list(a.state_dict()))
---
m=nn.Sequential(nn.Linear(2,2),nn.BatchNorm1d(2)); nn.init.ones_(m[0].weight); nn.init.zeros_(m[0].bias); optim.swa_utils.update_bn([torch.arange(4.).reshape(2,2),torch.ones(2,2)],m); print(m[1].running_mean,m[1].running_var, m[1].momentum)
---
optim.SGD([],lr=.1)
---
optim.SGD(torch.ones(1),lr=.1)
---
optim.SGD([3])
---
optim.SGD([torch.ones(1)],lr=-1)
---
x=torch.ones(1,requires_grad=True); optim.SGD([x*2])
---
x=torch.ones(1,requires_grad=True); o=optim.SGD([x],momentum=.9); print(o); o.add_param_group({'params':x})
---
x=torch.ones(1,requires_grad=True); optim.SGD([x,x])
---
optim.Adam([torch.ones(1)],betas=(1.,.9))
---
optim.Adam([torch.ones(1)],lr=torch.tensor(.1),foreach=True)
---
optim.Adam([torch.ones(1)],eps=-1)
---
optim.RMSprop([torch.ones(1)],alpha=-1)
---
optim.Adadelta([torch.ones(1)],rho=2)
---
optim.NAdam([torch.ones(1)],momentum_decay=-2)
---
optim.Rprop([torch.ones(1)],etas=(2,3))
---
optim.ASGD([torch.ones(1)],weight_decay=-2)
---
x=torch.ones(1,requires_grad=True); optim.Adam([x],fused=True,differentiable=True)
---
x=torch.ones(1,requires_grad=True); o=optim.SGD([('a',x)]); print(o.param_groups[0]['param_names']); o.add_param_group({'params':[torch.ones(1,requires_grad=True)]})
---
x=torch.ones(1,requires_grad=True); o=optim.SGD([('a',x),x])
---
x=torch.ones(1,requires_grad=True); o=optim.SGD([x]); o.add_param_group(3)
---
x=torch.ones(1,requires_grad=True); o=optim.SGD([{'params':{x}}])
---
x=torch.ones(1,requires_grad=True); o=optim.Adam([x],lr=.1); o.load_state_dict(optim.Adam([x,torch.ones(1)]).state_dict())
---
x=torch.ones(1,requires_grad=True); o=optim.Adam([x],lr=.1); o.load_state_dict(optim.Adam([{'params':[x]},{'params':[torch.ones(1)]}]).state_dict())
---
x=torch.ones(1,requires_grad=True); o=optim.Adam([x],lr=.1); x.grad=torch.ones(1); o.step(); print(o.state_dict()); s=optim.lr_scheduler.StepLR(o,1); s.step(); s.get_lr()
---
print(optim.lr_scheduler.LambdaLR(optim.SGD([torch.ones(1)]),[lambda e:1,lambda e:2]))
---
optim.lr_scheduler.StepLR(3,1)
---
optim.lr_scheduler.StepLR(optim.SGD([torch.ones(1)]),1,last_epoch=2)
---
x=torch.ones(1,requires_grad=True); o=optim.Optimizer([x],{}); o.step()
""".split("---\n")
]
